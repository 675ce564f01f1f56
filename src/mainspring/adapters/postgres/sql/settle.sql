-- name: complete
-- The task leaves the live table and enters the history in one statement.
-- $1 now or NULL, $2 ids, $3 tokens, $4 results.
-- transition: complete
WITH ended AS (
    DELETE FROM mainspring.tasks t
    USING unnest($2::uuid[], $3::bigint[], $4::text[]) AS s (id, token, result)
    WHERE t.id = ANY (ARRAY[s.id]) AND t.status = 'running' AND t.fencing_token = s.token
    RETURNING t.*, s.result
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'completed' AS event,
        coalesce($1::timestamptz, clock_timestamp()) AS at, NULL::text AS error,
        NULL::text AS reason
    FROM ended
), {{webhooks}}
INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, result)
SELECT {{moved}}, attempts, 'completed', coalesce($1::timestamptz, clock_timestamp()), result::json
FROM ended
RETURNING id, fencing_token, queue, group_key;

-- name: retry
-- A failed attempt: again later, or to the dead letters when it was the last one, or cancelled
-- when that was asked for meanwhile. The row is locked first, so that one look decides.
-- $1 now or NULL, $2 attempts kept, $3 ids, $4 tokens, $5 delays, $6 kinds, $7 errors,
-- $8 tracebacks, $9 the kinds that count as the death of a process.
-- transition: retry
-- transition: fail
-- transition: cancel_running
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), owned AS MATERIALIZED (
    SELECT t.id, s.delay, s.kind, s.error, s.traceback,
        CASE
            WHEN t.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN t.attempt_count > t.max_retries THEN 'failed'
            ELSE 'retrying'
        END AS target
    FROM unnest($3::uuid[], $4::bigint[], $5::float8[], $6::text[], $7::text[], $8::text[])
        AS s (id, token, delay, kind, error, traceback)
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[s.id])
    WHERE t.status = 'running' AND t.fencing_token = s.token
    FOR UPDATE OF t
), changed AS MATERIALIZED (
    SELECT o.id, o.target, clock.now, clock.now + make_interval(secs => o.delay) AS again_at,
        t.crash_count + (o.kind = ANY ($9::text[]))::integer AS crash_count,
        {{attempts_after}} AS attempts
    FROM clock
    CROSS JOIN owned o
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[o.id])
    {{entry}}
), again AS (
    UPDATE mainspring.tasks t SET
        status = CASE WHEN t.group_key IS NULL THEN 'retrying' ELSE 'coming' END,
        scheduled_at = c.again_at, lease_expires_at = NULL, worker_id = NULL,
        crash_count = c.crash_count, attempts = c.attempts
    FROM changed c
    WHERE t.id = ANY (ARRAY[c.id]) AND c.target = 'retrying'
    RETURNING t.id, t.fencing_token, t.queue, t.group_key
), gone AS (
    DELETE FROM mainspring.tasks t USING changed c
    WHERE t.id = ANY (ARRAY[c.id]) AND c.target <> 'retrying'
    RETURNING t.id, t.scheduled_at, t.created_at, t.started_at, t.fencing_token,
        t.timeout_seconds, t.attempt_count, c.crash_count, t.max_retries, t.priority, t.queue,
        t.task_type, t.worker_id, t.key, t.backoff_kind, t.backoff, t.payload, t.progress,
        t.schedule, t.nominal_at, t.previous_nominal_at, t.group_key, t.unique_key,
        c.attempts, c.target, c.now, t.cancel_reason
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
SELECT id, fencing_token, queue, group_key FROM again
UNION ALL SELECT id, fencing_token, queue, group_key FROM gone;

-- name: fail
-- Failed for good: to the dead letters, whatever attempts are left.
-- $1 now or NULL, $2 attempts kept, $3 ids, $4 tokens, $5 kinds, $6 errors, $7 tracebacks,
-- $8 the kinds that count as the death of a process.
-- transition: fail
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), gone AS (
    DELETE FROM mainspring.tasks t
    USING unnest($3::uuid[], $4::bigint[], $5::text[], $6::text[], $7::text[])
        AS o (id, token, kind, error, traceback)
    WHERE t.id = ANY (ARRAY[o.id]) AND t.status = 'running' AND t.fencing_token = o.token
    RETURNING t.*, o.kind, o.error, o.traceback
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'failed' AS event,
        clock.now AS at, error AS error, NULL::text AS reason
    FROM gone, clock
), {{webhooks}}
INSERT INTO mainspring.dead_letters (
    id, scheduled_at, created_at, started_at, fencing_token, timeout_seconds, attempt_count,
    crash_count, max_retries, priority, queue, task_type, worker_id, key, backoff_kind, backoff,
    payload, progress, schedule, nominal_at, previous_nominal_at, group_key, unique_key, attempts,
    completed_at)
SELECT t.id, t.scheduled_at, t.created_at, t.started_at, t.fencing_token, t.timeout_seconds,
    t.attempt_count, t.crash_count + (t.kind = ANY ($8::text[]))::integer, t.max_retries,
    t.priority, t.queue, t.task_type, t.worker_id, t.key, t.backoff_kind, t.backoff, t.payload,
    t.progress, t.schedule, t.nominal_at, t.previous_nominal_at, t.group_key, t.unique_key,
    {{attempts_after}}, clock.now
FROM clock
CROSS JOIN gone t
CROSS JOIN LATERAL (SELECT t.kind, t.error, t.traceback) o
{{entry}}
RETURNING id, fencing_token, queue, group_key;

-- name: end_cancelled
-- The handler stopped because the task was cancelled, from outside or by itself. What it said
-- itself is the better reason.
-- $1 now or NULL, $2 ids, $3 tokens, $4 reasons.
-- transition: cancel_running
WITH ended AS (
    DELETE FROM mainspring.tasks t
    USING unnest($2::uuid[], $3::bigint[], $4::text[]) AS s (id, token, reason)
    WHERE t.id = ANY (ARRAY[s.id]) AND t.status = 'running' AND t.fencing_token = s.token
    RETURNING t.*, s.reason
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'cancelled' AS event,
        coalesce($1::timestamptz, clock_timestamp()) AS at, NULL::text AS error,
        coalesce(reason, cancel_reason) AS reason
    FROM ended
), {{webhooks}}
INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, reason)
SELECT {{moved}}, attempts, 'cancelled', coalesce($1::timestamptz, clock_timestamp()),
    coalesce(reason, cancel_reason)
FROM ended
RETURNING id, fencing_token, queue, group_key;

-- name: release
-- Handed back uncharged: waiting again, at once with the age it had, or after a delay; or
-- cancelled when that was asked for meanwhile.
-- $1 now or NULL, $2 ids, $3 tokens, $4 delays.
-- transition: release
-- transition: snooze
-- transition: cancel_running
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), owned AS MATERIALIZED (
    SELECT t.id, s.delay, t.cancel_requested_at IS NOT NULL AS cancelled
    FROM unnest($2::uuid[], $3::bigint[], $4::float8[]) AS s (id, token, delay)
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[s.id])
    WHERE t.status = 'running' AND t.fencing_token = s.token
    FOR UPDATE OF t
), again AS (
    UPDATE mainspring.tasks t SET
        status = CASE WHEN t.group_key IS NULL THEN 'pending' ELSE 'coming' END,
        attempt_count = t.attempt_count - 1, worker_id = NULL, lease_expires_at = NULL,
        scheduled_at = CASE
            WHEN o.delay > 0 THEN clock.now + make_interval(secs => o.delay)
            ELSE t.scheduled_at
        END
    FROM owned o, clock
    WHERE t.id = ANY (ARRAY[o.id]) AND NOT o.cancelled
    RETURNING t.id, t.fencing_token, t.queue, t.group_key
), gone AS (
    DELETE FROM mainspring.tasks t USING owned o
    WHERE t.id = ANY (ARRAY[o.id]) AND o.cancelled
    RETURNING t.*
), ended AS (
    INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, reason)
    SELECT {{moved}}, attempts, 'cancelled', clock.now, cancel_reason FROM gone, clock
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'cancelled' AS event,
        clock.now AS at, NULL::text AS error, cancel_reason AS reason
    FROM gone, clock
), {{webhooks}}
SELECT id, fencing_token, queue, group_key FROM again
UNION ALL SELECT id, fencing_token, queue, group_key FROM gone;
