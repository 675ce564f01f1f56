-- name: heartbeat
-- Ownership is the token alone: a lease that ran out but was not rescued yet is still its holder's.
-- $1 now or NULL, $2 ids, $3 tokens, $4 lease seconds.
UPDATE mainspring.tasks t
SET lease_expires_at = coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $4)
FROM unnest($2::uuid[], $3::bigint[]) AS held (id, token)
WHERE t.id = ANY (ARRAY[held.id]) AND t.status = 'running' AND t.fencing_token = held.token
RETURNING t.id, t.fencing_token, t.cancel_requested_at IS NOT NULL AS cancel_requested;

-- name: watch
-- The same question without a write, for asking every second.
-- $1 ids, $2 tokens.
SELECT t.id, t.fencing_token, t.cancel_requested_at IS NOT NULL AS cancel_requested
FROM unnest($1::uuid[], $2::bigint[]) AS held (id, token)
JOIN mainspring.tasks t ON t.id = ANY (ARRAY[held.id])
WHERE t.status = 'running' AND t.fencing_token = held.token;

-- name: leases_of
-- What is running is read whole: no index has the worker, since every claim would have to write it.
-- What runs has a lease, and to say so makes the index of those the only choice.
-- $1 worker.
SELECT t.id, t.fencing_token FROM mainspring.tasks t
WHERE t.status = 'running' AND t.lease_expires_at IS NOT NULL AND t.worker_id = $1;

-- name: progress
-- No index holds the column, so the new version stays on its page.
-- $1 id, $2 token, $3 progress.
UPDATE mainspring.tasks t SET progress = $3::text::json
WHERE t.id = $1 AND t.status = 'running' AND t.fencing_token = $2
RETURNING t.id;

-- name: rescue
-- Takes back what nobody renewed. A raised token makes whatever the old holder still sends stale.
-- Rows that their holder is just settling are locked and are left to it.
-- A lease ends with its whole worker, which is rarely the fault of one task: only from the second
-- time on it counts as a crash, after which the task runs alone.
-- $1 now or NULL, $2 attempts kept, $3 limit, $4 kind of the failed attempt.
-- transition: rescue
-- transition: rescue_exhausted
-- transition: rescue_cancelled
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), expired AS MATERIALIZED (
    SELECT t.id, $4::text AS kind, '' AS traceback,
        format('LeaseExpired: worker %s stopped renewing its lease', t.worker_id) AS error,
        CASE
            WHEN t.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN t.attempt_count > t.max_retries THEN 'failed'
            ELSE 'pending'
        END AS target
    FROM mainspring.tasks t
    WHERE t.status = 'running' AND t.lease_expires_at <= (SELECT now FROM clock)
    ORDER BY t.lease_expires_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
), changed AS MATERIALIZED (
    SELECT o.id, o.target, clock.now, {{attempts_after}} AS attempts,
        t.crash_count + coalesce(t.attempts @> '[{"kind": "lease_expired"}]', false)::integer
            AS crash_count
    FROM clock
    CROSS JOIN expired o
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[o.id])
    {{entry}}
), counted AS (
    UPDATE mainspring.counters SET value = value + (SELECT count(*) FROM expired)
    WHERE name = 'leases_expired' AND EXISTS (SELECT FROM expired)
), again AS (
    UPDATE mainspring.tasks t SET
        status = CASE WHEN t.group_key IS NULL THEN 'pending' ELSE 'coming' END,
        fencing_token = t.fencing_token + 1, worker_id = NULL,
        lease_expires_at = NULL, crash_count = c.crash_count, attempts = c.attempts
    FROM changed c
    WHERE t.id = ANY (ARRAY[c.id]) AND c.target = 'pending'
    RETURNING t.id, c.target, t.queue, t.group_key
), gone AS (
    DELETE FROM mainspring.tasks t USING changed c
    WHERE t.id = ANY (ARRAY[c.id]) AND c.target <> 'pending'
    RETURNING t.id, t.scheduled_at, t.created_at, t.started_at,
        t.fencing_token + 1 AS fencing_token, t.timeout_seconds, t.attempt_count,
        c.crash_count, t.max_retries, t.priority, t.queue, t.task_type,
        t.worker_id, t.key, t.backoff_kind, t.backoff, t.payload, t.progress, t.schedule,
        t.nominal_at, t.previous_nominal_at, t.group_key, t.unique_key, c.attempts, c.target, c.now, t.cancel_reason
), buried AS (
    INSERT INTO mainspring.dead_letters ({{moved}}, attempts, completed_at)
    SELECT {{moved}}, attempts, now FROM gone WHERE target = 'failed'
), ended AS (
    INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, reason)
    SELECT {{moved}}, attempts, 'cancelled', now, cancel_reason FROM gone
    WHERE target = 'cancelled'
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, target AS event,
        now AS at, CASE WHEN target = 'failed' THEN attempts->-1->>'error' END AS error,
        CASE WHEN target = 'cancelled' THEN cancel_reason END AS reason
    FROM gone
), {{webhooks}}
SELECT id, target, queue, group_key FROM again
UNION ALL SELECT id, target, queue, group_key FROM gone;

-- name: put_back_unserved
-- What was admitted in a queue with limits holds a place there until it is claimed. If no live worker
-- serves it any more it gives that back, and is admitted anew for one that does. (Aging may let workers
-- of better lanes take it as well; they admit it by themselves.)
-- To people it waits as before; it is as if it were rescheduled to the time it had.
-- $1 now or NULL, $2 limit for each queue, $3 seconds of silence after which a worker is not alive.
-- transition: reschedule
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), unserved AS MATERIALIZED (
    SELECT one.id
    FROM clock
    CROSS JOIN mainspring.queues q
    CROSS JOIN LATERAL (
        SELECT t.id FROM mainspring.tasks t
        WHERE split_part(t.queue, '@', 1) = q.name AND t.group_key IS NOT NULL
            AND t.status IN ('pending', 'retrying')
            AND NOT EXISTS (
                SELECT FROM mainspring.workers w
                WHERE w.seen_at > clock.now - make_interval(secs => $3) AND NOT w.draining
                    AND t.task_type = ANY (w.task_types)
                    AND (w.queues IS NULL OR q.name = ANY (w.queues))
                    AND string_to_array(split_part(t.queue, '@', 2), ',') <@ w.labels
                    AND (w.lanes IS NULL OR w.lanes && CASE
                        WHEN t.priority < 1 THEN '{critical}'
                        WHEN t.priority < 4 THEN '{high}'
                        WHEN t.priority < 7 THEN '{normal}'
                        ELSE '{low,batch}'
                    END::text[])
                OFFSET 0)
        LIMIT $2
        FOR UPDATE OF t SKIP LOCKED
    ) one
    WHERE q.labels IS NULL AND (
        q.limited OR q.group_concurrency IS NOT NULL OR q.group_rate IS NOT NULL
        OR EXISTS (SELECT FROM mainspring.groups o WHERE o.queue = q.name OFFSET 0))
)
UPDATE mainspring.tasks t SET status = 'coming'
FROM unserved u
WHERE t.id = ANY (ARRAY[u.id]) AND t.status NOT IN ('coming', 'held', 'running')
RETURNING t.queue, t.group_key;
