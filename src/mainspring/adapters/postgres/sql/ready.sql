-- name: claim_ids
-- Leases the tasks of these ids that a claim of this worker could take now. What a ready queue says
-- of them is not believed: they have to wait here, be due, and be of a type and a queue that the
-- worker serves and that is not paused. All but the lock is looked up by key. Of those that are to be
-- admitted first it says so.
-- Those that wait but are early or paused follow without a lane, so that whoever asked can put them
-- back with their right time. The others are gone, or somebody is dealing with them.
-- $1 now or NULL, $2 worker, $3 lease seconds, $4 ids, $5 their lanes, $6 task types,
-- $7 queues or NULL.
-- transition: claim
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), paused AS MATERIALIZED (
    SELECT coalesce(array_agg(q.name) FILTER (WHERE q.paused), '{}') AS names,
        coalesce(array_agg(q.name) FILTER (WHERE q.limited), '{}') AS limited
    FROM mainspring.queues q
    WHERE q.labels IS NULL AND (q.paused OR q.limited)
), given AS MATERIALIZED (
    SELECT g.id, g.lane FROM unnest($4::uuid[], $5::integer[]) AS g (id, lane)
), locked AS MATERIALIZED (
    SELECT t.id, g.lane
    FROM clock, paused, given g
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[g.id])
    WHERE t.status NOT IN ('running', 'coming', 'held') AND t.scheduled_at <= clock.now
        AND (t.group_key IS NOT NULL OR t.queue <> ALL (paused.limited))
        AND t.task_type = ANY ($6::text[]) AND t.queue <> ALL (paused.names)
        AND CASE WHEN $7::text[] IS NULL THEN position('@' IN t.queue) = 0
            ELSE t.queue = ANY ($7::text[]) END
    FOR UPDATE OF t SKIP LOCKED
), claimed AS (
    UPDATE mainspring.tasks t SET
        status = 'running',
        worker_id = $2,
        fencing_token = t.fencing_token + 1,
        attempt_count = t.attempt_count + 1,
        started_at = clock.now,
        lease_expires_at = clock.now + make_interval(secs => $3)
    FROM locked c, clock
    WHERE t.id = ANY (ARRAY[c.id]) AND t.status <> 'running'
    RETURNING t.id, c.lane, t.fencing_token, t.task_type, t.payload, t.queue, t.priority,
        t.scheduled_at, t.created_at, t.started_at, t.attempt_count, t.max_retries,
        t.timeout_seconds, t.backoff_kind, t.backoff, t.crash_count,
        t.schedule, t.nominal_at, t.previous_nominal_at, t.group_key
)
SELECT claimed.*, NULL::boolean AS is_paused, NULL::boolean AS is_gated
FROM claimed
UNION ALL
SELECT t.id, NULL, NULL, t.task_type, NULL, t.queue, t.priority, t.scheduled_at, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, t.queue = ANY (paused.names),
    t.scheduled_at <= clock.now AND t.queue <> ALL (paused.names) AS is_gated
FROM clock, paused, given g
JOIN mainspring.tasks t ON t.id = ANY (ARRAY[g.id])
WHERE g.id NOT IN (SELECT c.id FROM locked c)
    AND t.status <> 'running' AND (
        t.scheduled_at > clock.now OR t.queue = ANY (paused.names) OR t.status IN ('coming', 'held')
        OR (t.group_key IS NULL AND t.queue = ANY (paused.limited)));

-- name: waiting_entries
-- Those of some tasks that wait and are due soon, for the ready queue; at least a row with the time.
-- $1 now or NULL, $2 ids, $3 seconds ahead.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
SELECT clock.now, t.id, t.queue, t.priority, t.task_type, t.scheduled_at
FROM clock
LEFT JOIN (
    unnest($2::uuid[]) AS g (id)
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[g.id])
) ON t.status NOT IN ('running', 'held') AND t.scheduled_at <= clock.now + make_interval(secs => $3);

-- name: window_state
-- What a round of feeding the ready queue starts from.
-- $1 now or NULL.
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, (
    SELECT coalesce(array_agg(q.name), '{}') FROM mainspring.queues q
    WHERE q.labels IS NULL AND q.paused
) AS paused;

-- name: window_entries
-- What waits and is due until a time: the heads of the ranges that a claim looks at. Paused queues
-- are read as well, so that a resumed one is there at once; branches are not. What is to be admitted
-- first is among it when it comes: whoever takes that from the ready queue looks into the store.
-- $1 until, $2 bound by queue and priority.
SELECT s.id, s.queue, s.priority, s.task_type, s.scheduled_at
FROM mainspring.queues q
CROSS JOIN generate_series(0, 10) AS p (priority)
CROSS JOIN LATERAL (
    SELECT t.id, t.queue, t.priority, t.task_type, t.scheduled_at
    FROM mainspring.tasks t
    WHERE t.queue = q.name AND t.priority = p.priority
        AND t.status IN ('pending', 'retrying') AND t.scheduled_at <= $1
    ORDER BY t.scheduled_at, t.id
    LIMIT $2
) s
WHERE q.labels IS NULL;

-- name: window_coming
-- The same of what is to be admitted first.
-- $1 until, $2 bound by queue.
SELECT s.id, s.queue, s.priority, s.task_type, s.scheduled_at
FROM mainspring.queues q
CROSS JOIN LATERAL (
    SELECT t.id, t.queue, t.priority, t.task_type, t.scheduled_at
    FROM mainspring.tasks t
    WHERE split_part(t.queue, '@', 1) = q.name AND t.status = 'coming' AND t.scheduled_at <= $1
    ORDER BY t.scheduled_at
    LIMIT $2
) s
WHERE q.labels IS NULL;
