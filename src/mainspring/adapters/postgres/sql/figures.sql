-- name: queue_names
-- Of the queues that anything was ever submitted to.
SELECT DISTINCT q.base AS name FROM mainspring.queues q ORDER BY q.base;

-- name: places
-- Where tasks are and who has them: one probe of each index for each id.
-- $1 ids.
SELECT wanted.id, found.queue, found.status, found.worker_id, found.fencing_token,
    found.attempt_count, found.backoff_kind, found.backoff
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT t.queue, {{shown}} AS status, t.worker_id, t.fencing_token, t.attempt_count,
        t.backoff_kind, t.backoff
    FROM mainspring.tasks t WHERE t.id = wanted.id
    UNION ALL
    SELECT t.queue, 'failed', t.worker_id, t.fencing_token, t.attempt_count,
        t.backoff_kind, t.backoff
    FROM mainspring.dead_letters t WHERE t.id = wanted.id
    UNION ALL
    SELECT t.queue, t.status, t.worker_id, t.fencing_token, t.attempt_count,
        t.backoff_kind, t.backoff
    FROM mainspring.task_history t WHERE t.id = wanted.id
) found;

-- name: backlogs
-- What is due by queue and priority, each count up to a bound and by the index alone, and since
-- when its oldest has been. What is held counts as well, but not for the oldest: it waits because
-- someone wants it to. Its lines are looked at up to the same bound.
-- $1 now or NULL, $2 bound.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
SELECT q.base AS queue, p.priority, least($2, sum(ready.count))::integer AS ready,
    coalesce(extract(epoch FROM clock.now - min(ready.oldest)), 0)::float8 AS oldest_seconds,
    least($2, sum(ready.held))::integer AS held
FROM clock
CROSS JOIN mainspring.queues q
CROSS JOIN generate_series(0, 10) AS p (priority)
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS count, min(one.scheduled_at) AS oldest, 0 AS held FROM (
        SELECT t.scheduled_at FROM mainspring.tasks t
        WHERE t.queue = q.name AND t.priority = p.priority
            AND t.status IN ('pending', 'retrying') AND t.scheduled_at <= clock.now
        ORDER BY t.scheduled_at, t.id
        LIMIT $2
    ) one
    UNION ALL
    SELECT count(*)::integer, NULL, count(*)::integer FROM (
        SELECT FROM mainspring.lines l
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.tasks t
            WHERE split_part(t.queue, '@', 1) = l.queue AND t.group_key = l.group_key
                AND t.priority = l.priority AND t.status = 'held'
            LIMIT $2
        ) h
        WHERE q.labels IS NULL AND l.queue = q.name AND l.priority = p.priority
        LIMIT $2
    ) one
    UNION ALL
    SELECT count(*)::integer, min(one.scheduled_at), 0 FROM (
        SELECT t.priority, t.scheduled_at FROM mainspring.tasks t
        WHERE q.labels IS NULL AND split_part(t.queue, '@', 1) = q.name AND t.status = 'coming'
            AND t.scheduled_at <= clock.now
        ORDER BY t.scheduled_at
        LIMIT $2
    ) one
    WHERE one.priority = p.priority
) ready
WHERE ready.count > 0
GROUP BY q.base, p.priority, clock.now
ORDER BY q.base, p.priority;

-- name: finished_since
-- What ended in a span of time. Spans follow each other and end a little in the past, so that each
-- end is seen once. As a function, because it alone reads an index that needs a bitmap.
-- $1 from (excluded), $2 to, $3 bounds of the buckets of lateness, $4 of duration.
SELECT f.task_type, f.outcome, f.late_bucket, f.long_bucket, f.count, f.lateness, f.duration
FROM mainspring.finished_since_v1($1, $2, $3, $4) f;

-- name: store_now
-- The clock that everything stored is stamped with.
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now;

-- name: counters
-- $1 name.
SELECT c.value FROM mainspring.counters c WHERE c.name = $1;
