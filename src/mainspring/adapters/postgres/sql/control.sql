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
-- A task of a group is admitted anew when the time has come.
-- $1 now or NULL, $2 id, $3 time or NULL.
-- transition: reschedule
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
UPDATE mainspring.tasks t SET
    scheduled_at = greatest(coalesce($3, clock.now), clock.now),
    status = CASE WHEN t.group_key IS NULL THEN t.status ELSE 'coming' END
FROM clock
WHERE t.id = $2 AND t.status <> 'running'
RETURNING {{shown}} AS status;

-- name: pause
-- A queue may be paused before its first task.
INSERT INTO mainspring.queues (name, paused) VALUES ($1, true)
ON CONFLICT (name) DO UPDATE SET paused = true;

-- name: resume
-- A queue that was never paused stays as it is.
UPDATE mainspring.queues SET paused = false WHERE name = $1 AND paused;

-- fragment: gate_changed
-- Whoever admits next looks anew at all that was held for the limits of before, and for what started
-- while there was none.
INSERT INTO mainspring.gates (queue, ready_at, changed) SELECT $2, clock.now, true FROM clock
ON CONFLICT (queue) DO UPDATE SET ready_at = EXCLUDED.ready_at, changed = true, limited_at = NULL

-- name: set_limits
-- A queue may be limited before its first task.
-- $1 now or NULL, $2 queue, $3 whether the limit of the whole queue is replaced, $4 its concurrency,
-- $5 rate, $6 burst, $7 whether that of each group is, $8 its concurrency, $9 rate, $10 burst.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), queue AS (
    INSERT INTO mainspring.queues AS q (
        name, concurrency, rate, burst, group_concurrency, group_rate, group_burst)
    VALUES ($2, $4, $5, $6, $8, $9, $10)
    ON CONFLICT (name) DO UPDATE SET
        concurrency = CASE WHEN $3 THEN EXCLUDED.concurrency ELSE q.concurrency END,
        rate = CASE WHEN $3 THEN EXCLUDED.rate ELSE q.rate END,
        burst = CASE WHEN $3 THEN EXCLUDED.burst ELSE q.burst END,
        group_concurrency =
            CASE WHEN $7 THEN EXCLUDED.group_concurrency ELSE q.group_concurrency END,
        group_rate = CASE WHEN $7 THEN EXCLUDED.group_rate ELSE q.group_rate END,
        group_burst = CASE WHEN $7 THEN EXCLUDED.group_burst ELSE q.group_burst END
)
{{gate_changed}};

-- name: set_group_limit
-- A group may be limited before its first task. Answers nothing when so many others of the queue
-- have limits of their own that there is no room for one more.
-- $1 now or NULL, $2 queue, $3 group key, $4 concurrency, $5 rate, $6 burst, $7 how many may have one.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), queue AS (
    INSERT INTO mainspring.queues (name) VALUES ($2) ON CONFLICT DO NOTHING
), limited AS (
    INSERT INTO mainspring.groups (queue, group_key, concurrency, rate, burst)
    SELECT $2, $3, $4, $5, $6
    WHERE $7 > (
        SELECT count(*) FROM mainspring.groups others
        WHERE others.queue = $2 AND others.group_key <> $3)
    ON CONFLICT (queue, group_key) DO UPDATE SET
        concurrency = EXCLUDED.concurrency, rate = EXCLUDED.rate, burst = EXCLUDED.burst
    RETURNING 1
), gate AS (
    {{gate_changed}}
)
SELECT 1 FROM limited;

-- name: drop_group_limit
-- The group has the limit of every group again.
-- $1 now or NULL, $2 queue, $3 group key.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), dropped AS (
    DELETE FROM mainspring.groups WHERE queue = $2 AND group_key = $3
)
{{gate_changed}};

-- name: limits
-- The limit of the queue, that of each of its groups, and those of single groups.
-- $1 queue.
SELECT 'queue' AS scope, NULL AS group_key, q.concurrency, q.rate, q.burst
FROM mainspring.queues q WHERE q.name = $1
UNION ALL
SELECT 'group', NULL, q.group_concurrency, q.group_rate, q.group_burst
FROM mainspring.queues q WHERE q.name = $1
UNION ALL
SELECT 'own', g.group_key, g.concurrency, g.rate, g.burst
FROM mainspring.groups g WHERE g.queue = $1;

-- name: announce
-- A hint needs no place on disk, and a commit that only carries one should not wait for it.
SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2);
