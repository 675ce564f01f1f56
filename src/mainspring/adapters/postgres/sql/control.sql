-- name: cancel
-- Waiting tasks end; running ones are told. The row is locked before its status is looked at, so
-- a claim that runs at the same time is either seen or prevented.
-- $1 now or NULL, $2 ids, $3 reason.
-- transition: cancel_waiting
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), found AS MATERIALIZED (
    SELECT t.id, t.status = 'running' AS running
    FROM unnest($2::uuid[]) AS wanted (id)
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[wanted.id])
    FOR UPDATE OF t
), told AS (
    UPDATE mainspring.tasks t SET
        cancel_requested_at = coalesce(t.cancel_requested_at, clock.now),
        cancel_reason = coalesce($3, t.cancel_reason)
    FROM found f, clock
    WHERE t.id = ANY (ARRAY[f.id]) AND f.running
    RETURNING t.id
), gone AS (
    DELETE FROM mainspring.tasks t USING found f
    WHERE t.id = ANY (ARRAY[f.id]) AND NOT f.running
    RETURNING t.*
), ended AS (
    INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, reason)
    SELECT {{moved}}, attempts, 'cancelled', clock.now, $3 FROM gone, clock
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'cancelled' AS event,
        clock.now AS at, NULL::text AS error, $3::text AS reason
    FROM gone, clock
), {{webhooks}}
SELECT id, true AS running FROM told UNION ALL SELECT id, false FROM gone;

-- name: reschedule
-- A time in the past is now: age counts from the moment at which the task could run. The guard is
-- not written as the condition of the index of waiting tasks, which is no way to find one by id.
-- $1 now or NULL, $2 id, $3 time or NULL.
-- transition: reschedule
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
UPDATE mainspring.tasks t SET scheduled_at = greatest(coalesce($3, clock.now), clock.now)
FROM clock
WHERE t.id = $2 AND t.status <> 'running'
RETURNING t.status;

-- name: pause
-- A queue may be paused before its first task.
INSERT INTO mainspring.queues (name, paused) VALUES ($1, true)
ON CONFLICT (name) DO UPDATE SET paused = true;

-- name: resume
-- A queue that was never paused stays as it is.
UPDATE mainspring.queues SET paused = false WHERE name = $1 AND paused;

-- name: announce
-- A hint needs no place on disk, and a commit that only carries one should not wait for it.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2);
