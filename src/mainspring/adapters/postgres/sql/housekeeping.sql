-- name: prepare_history
-- Months are made ahead, while they are empty: then it takes no time and blocks nobody.
SELECT made FROM mainspring.prepare_history_v1($1, $2) AS made;

-- name: drop_history
-- Whole months, in which nothing finished since. One process at a time: a second one would find
-- months that are gone when it comes to them, so it leaves them all to the first.
SELECT dropped
FROM (SELECT pg_try_advisory_xact_lock(1835100526, 1) AS ours OFFSET 0) turn
CROSS JOIN LATERAL mainspring.drop_history_v1(CASE WHEN turn.ours
    THEN coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $2)
    ELSE '-infinity' END) AS dropped;

-- name: drop_strays
-- Rows that lie in no month go one by one.
DELETE FROM mainspring.task_history_default
WHERE id = ANY (ARRAY(
    SELECT h.id FROM mainspring.task_history_default h
    WHERE h.completed_at < coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $2)
    LIMIT $3))
RETURNING id;

-- name: forget_keys
-- A key protects its task for as long as that is live, however old it is.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
DELETE FROM mainspring.idempotency
WHERE key = ANY (ARRAY(
    SELECT i.key FROM mainspring.idempotency i
    WHERE i.created_at < (SELECT now FROM clock) - make_interval(secs => $2)
        AND NOT EXISTS (SELECT FROM mainspring.tasks t WHERE t.id = i.task_id OFFSET 0)
    ORDER BY i.created_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED))
RETURNING key;
