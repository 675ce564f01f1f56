-- fragment: dead_chosen
-- The dead letters that are asked for: those with the ids, looked up one by one, or else the next
-- ones after an id. Rows that somebody else has locked are left out.
-- $2 ids or NULL, $3 task type or NULL, $4 limit, $6 the id to go on after or NULL, $7 queues or NULL,
-- $8 whether only those are meant whose unique key no live task has.
named AS MATERIALIZED (
    SELECT d.id FROM mainspring.dead_letters d
    WHERE d.id = ANY ($2::uuid[]) AND {{dead_wanted}}
    ORDER BY d.id
    LIMIT $4
    FOR UPDATE SKIP LOCKED
), following AS MATERIALIZED (
    SELECT d.id FROM mainspring.dead_letters d
    WHERE $2::uuid[] IS NULL AND {{dead_wanted}}
    ORDER BY d.id
    LIMIT $4
    FOR UPDATE SKIP LOCKED
), chosen AS MATERIALIZED (
    SELECT n.id FROM named n UNION ALL SELECT f.id FROM following f
)

-- fragment: dead_wanted
d.id > coalesce($6::uuid, '00000000-0000-0000-0000-000000000000')
        AND ($3::text IS NULL OR d.task_type = $3)
        AND ($7::text[] IS NULL OR split_part(d.queue, '@', 1) = ANY ($7::text[]))
        AND (NOT $8::boolean OR d.unique_key IS NULL OR NOT EXISTS (
            SELECT FROM mainspring.tasks t
            WHERE t.unique_key IS NOT NULL AND t.unique_key = d.unique_key
                AND coalesce(t.group_key, '') = coalesce(d.group_key, '')
            OFFSET 0))

-- name: replay
-- Back among the live tasks, due now, with attempts counted from zero and a token that nobody
-- holds. Rows that somebody else is replaying or discarding are left to them, and what has its
-- unique key from another task is left where it is: of several with one key the first is replayed.
-- $1 now or NULL, $2 ids or NULL, $3 task type or NULL, $4 limit, $5 payload or NULL,
-- $6 the id to go on after or NULL, $7 queues or NULL, $8 true.
-- transition: replay
WITH {{dead_chosen}}, reopened AS (
    INSERT INTO mainspring.tasks (
        id, scheduled_at, created_at, started_at, fencing_token, timeout_seconds, attempt_count,
        crash_count, max_retries, priority, status, queue, task_type, key, group_key, unique_key,
        backoff_kind, backoff, payload, progress, schedule, nominal_at, previous_nominal_at,
        attempts)
    SELECT
        d.id, coalesce($1::timestamptz, clock_timestamp()), d.created_at, d.started_at,
        d.fencing_token + 1, d.timeout_seconds, 0, 0, d.max_retries, d.priority,
        CASE WHEN nullif(d.group_key, '') IS NULL THEN 'pending' ELSE 'coming' END, d.queue,
        d.task_type, d.key, nullif(d.group_key, ''), d.unique_key, d.backoff_kind, d.backoff,
        coalesce($5::text::json, d.payload), d.progress, d.schedule, d.nominal_at,
        d.previous_nominal_at, d.attempts
    FROM chosen c JOIN mainspring.dead_letters d ON d.id = ANY (ARRAY[c.id])
    ORDER BY d.unique_key, d.group_key, d.id
    ON CONFLICT DO NOTHING
    RETURNING id
)
DELETE FROM mainspring.dead_letters d USING reopened r WHERE d.id = ANY (ARRAY[r.id])
RETURNING d.id;

-- name: discard
-- Given up, with a reason: to the history.
-- $1 now or NULL, $2 ids or NULL, $3 task type or NULL, $4 limit, $5 reason,
-- $6 the id to go on after or NULL, $7 queues or NULL, $8 false.
-- transition: discard
WITH {{dead_chosen}}, gone AS (
    DELETE FROM mainspring.dead_letters d USING chosen c WHERE d.id = ANY (ARRAY[c.id])
    RETURNING d.*
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'discarded' AS event,
        coalesce($1::timestamptz, clock_timestamp()) AS at, attempts->-1->>'error' AS error,
        $5::text AS reason
    FROM gone
), {{webhooks}}
INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, reason)
SELECT {{moved}}, attempts, 'discarded', coalesce($1::timestamptz, clock_timestamp()), $5::text
FROM gone
RETURNING id;
