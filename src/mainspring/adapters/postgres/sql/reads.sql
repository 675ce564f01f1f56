-- fragment: live_columns
-- A live task in the columns that every read returns.
t.id, t.task_type, t.payload, t.queue, t.priority, {{shown}} AS status,
t.status <> 'running' AND t.scheduled_at <= clock.now AS ready,
t.scheduled_at, t.timeout_seconds, t.max_retries, t.backoff_kind, t.attempt_count, t.created_at,
t.started_at, NULL::timestamptz AS completed_at, t.worker_id, t.lease_expires_at, t.fencing_token,
t.cancel_requested_at IS NOT NULL AS cancel_requested, t.cancel_reason AS reason,
NULL::json AS result, t.progress, t.key, t.attempts, t.schedule, t.nominal_at,
t.previous_nominal_at, {{placement}} AS placement, t.group_key, t.unique_key,
t.status IN ('coming', 'held') AND t.scheduled_at <= clock.now AS held

-- fragment: dead_columns
-- A dead letter in the same columns.
t.id, t.task_type, t.payload, t.queue, t.priority, 'failed' AS status, false AS ready,
t.scheduled_at, t.timeout_seconds, t.max_retries, t.backoff_kind, t.attempt_count, t.created_at,
t.started_at, t.completed_at, t.worker_id, NULL::timestamptz AS lease_expires_at, t.fencing_token,
false AS cancel_requested, NULL::text AS reason, NULL::json AS result, t.progress, t.key,
t.attempts, t.schedule, t.nominal_at, t.previous_nominal_at, NULL::text AS placement, t.group_key,
t.unique_key, false AS held

-- fragment: history_columns
-- A finished task in the same columns.
t.id, t.task_type, t.payload, t.queue, t.priority, t.status, false AS ready,
t.scheduled_at, t.timeout_seconds, t.max_retries, t.backoff_kind, t.attempt_count, t.created_at,
t.started_at, t.completed_at, t.worker_id, NULL::timestamptz AS lease_expires_at, t.fencing_token,
false AS cancel_requested, t.reason, t.result, t.progress, t.key, t.attempts, t.schedule,
t.nominal_at, t.previous_nominal_at, NULL::text AS placement, t.group_key, t.unique_key,
false AS held

-- name: get
-- One statement sees one moment, in which a task is in exactly one of the tables.
-- $1 now or NULL, $2 id.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
SELECT {{live_columns}} FROM clock, mainspring.tasks t WHERE t.id = $2
UNION ALL
SELECT {{dead_columns}} FROM mainspring.dead_letters t WHERE t.id = $2
UNION ALL
SELECT {{history_columns}} FROM mainspring.task_history t WHERE t.id = $2;

-- name: statuses
-- The lateral joins keep it to one probe of each index for each id.
-- $1 ids.
SELECT wanted.id, found.status
FROM unnest($1::uuid[]) AS wanted (id)
CROSS JOIN LATERAL (
    SELECT {{shown}} AS status FROM mainspring.tasks t WHERE t.id = wanted.id
    UNION ALL
    SELECT 'failed' FROM mainspring.dead_letters t WHERE t.id = wanted.id
    UNION ALL
    SELECT t.status FROM mainspring.task_history t WHERE t.id = wanted.id
) found;

-- fragment: wanted
-- The filters that hold for every table.
t.id < $2 AND t.id >= $3
AND ($5::text IS NULL OR t.task_type = $5) AND ($6::text[] IS NULL OR split_part(t.queue, '@', 1) = ANY ($6::text[]))
AND ($7::timestamptz IS NULL OR t.created_at >= $7)
AND ($8::timestamptz IS NULL OR t.created_at < $8)
AND ($9::text IS NULL OR t.schedule = $9)
AND ($10::text IS NULL OR t.group_key = $10)

-- name: scan_floor
-- How far down a page may look: as far as so many rows of each table reach. Without it a rare
-- filter would read a whole table for one page.
-- $1 highest id (excluded), $2 lowest, $3 how many rows.
SELECT id FROM (
    (SELECT t.id FROM mainspring.tasks t
        WHERE t.id < $1 AND t.id >= $2 ORDER BY t.id DESC OFFSET $3 LIMIT 1)
    UNION ALL
    (SELECT t.id FROM mainspring.dead_letters t
        WHERE t.id < $1 AND t.id >= $2 ORDER BY t.id DESC OFFSET $3 LIMIT 1)
    UNION ALL
    (SELECT t.id FROM mainspring.task_history t
        WHERE t.id < $1 AND t.id >= $2 ORDER BY t.id DESC OFFSET $3 LIMIT 1)
) reached
ORDER BY id DESC
LIMIT 1;

-- name: page
-- The newest of each table that passes the filters, merged. Bounds on the id keep every branch to
-- a part of its primary key.
-- $1 now or NULL, $2 highest id (excluded), $3 lowest, $4 limit, $5 task type, $6 queues or
-- NULL, $7 since, $8 until, $9 schedule, $10 group key, $11 status, $12 ready.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
SELECT * FROM (
    (SELECT {{live_columns}} FROM clock, mainspring.tasks t
        WHERE {{wanted}} AND ($11::text IS NULL OR {{shown}} = $11)
            AND ($12::boolean IS NULL OR $12 = (
                t.status <> 'running' AND t.scheduled_at <= clock.now))
        ORDER BY t.id DESC LIMIT $4)
    UNION ALL
    (SELECT {{dead_columns}} FROM mainspring.dead_letters t
        WHERE {{wanted}} AND coalesce($11, 'failed') = 'failed' AND NOT coalesce($12, false)
        ORDER BY t.id DESC LIMIT $4)
    UNION ALL
    (SELECT {{history_columns}} FROM mainspring.task_history t
        WHERE {{wanted}} AND ($11::text IS NULL OR t.status = $11) AND NOT coalesce($12, false)
        ORDER BY t.id DESC LIMIT $4)
) found
ORDER BY id DESC
LIMIT $4;

-- name: page_finished
-- Finished tasks of one type and one status, by the index that was made for it: no bound on how
-- far down it looks is needed.
-- $1 unused, $2 highest id (excluded), $3 lowest, $4 limit, $5 task type, $6 queues or
-- NULL, $7 since, $8 until, $9 schedule, $10 group key, $11 status.
SELECT {{history_columns}} FROM mainspring.task_history t
WHERE t.task_type = $5 AND t.status = $11 AND t.id < $2 AND t.id >= $3
    AND ($6::text[] IS NULL OR split_part(t.queue, '@', 1) = ANY ($6::text[]))
    AND ($7::timestamptz IS NULL OR t.created_at >= $7)
    AND ($8::timestamptz IS NULL OR t.created_at < $8)
    AND ($9::text IS NULL OR t.schedule = $9)
    AND ($10::text IS NULL OR t.group_key = $10)
    AND $1::timestamptz IS NOT DISTINCT FROM $1
ORDER BY t.id DESC
LIMIT $4;

-- name: page_running
-- What runs is few among what waits, so it is found by the index of leases and sorted.
-- $1 unused, $2 highest id (excluded), $3 lowest, $4 limit, $5 task type, $6 queues or
-- NULL, $7 since, $8 until, $9 schedule, $10 group key.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), running AS MATERIALIZED (
    SELECT t.* FROM mainspring.tasks t
    WHERE t.status = 'running' AND t.lease_expires_at > '-infinity'
)
SELECT {{live_columns}} FROM clock, running t
WHERE {{wanted}}
ORDER BY t.id DESC
LIMIT $4;

-- name: dead_letter_count
-- Counted up to a bound: nobody needs to know it more exactly.
-- $1 bound.
SELECT count(*)::integer AS count
FROM (SELECT FROM mainspring.dead_letters d LIMIT $1) counted;

-- name: unserved
-- Tasks that nobody takes stay at the head of their range, so the first of each are enough.
-- $1 now or NULL, $2 seconds of waiting, $3 how many of each range.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
SELECT DISTINCT head.task_type
FROM clock
CROSS JOIN mainspring.queues q
CROSS JOIN LATERAL (
    SELECT n.task_type FROM generate_series(0, 10) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT t.task_type FROM mainspring.tasks t
        WHERE t.queue = q.name AND t.priority = p.priority
            AND t.status IN ('pending', 'retrying')
            AND t.scheduled_at <= clock.now - make_interval(secs => $2)
        ORDER BY t.scheduled_at, t.id LIMIT $3
    ) n
    UNION ALL
    (SELECT t.task_type FROM mainspring.tasks t
        WHERE q.labels IS NULL AND split_part(t.queue, '@', 1) = q.name AND t.status = 'coming'
            AND t.scheduled_at <= clock.now - make_interval(secs => $2)
        ORDER BY t.scheduled_at LIMIT $3)
    UNION ALL
    SELECT n.task_type FROM (
        SELECT t.task_type, t.scheduled_at FROM mainspring.tasks t
        WHERE q.labels IS NULL AND split_part(t.queue, '@', 1) = q.name AND t.status = 'held'
        LIMIT $3
    ) n
    WHERE n.scheduled_at <= clock.now - make_interval(secs => $2)
) head
WHERE NOT EXISTS (SELECT FROM mainspring.workers w WHERE head.task_type = ANY (w.task_types))
ORDER BY head.task_type;

-- name: queues
-- Each count stops at its bound, and reads the index alone. Branches have rows of their own; what is to
-- be admitted first is counted with the queue itself.
-- $1 now or NULL, $2 bound.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), running AS MATERIALIZED (
    SELECT t.queue, count(*)::integer AS count FROM mainspring.tasks t
    WHERE t.status = 'running' AND t.lease_expires_at > '-infinity'
    GROUP BY t.queue
), held AS MATERIALIZED (
    SELECT every.base, counted.count
    FROM (SELECT q.base FROM mainspring.queues q WHERE q.labels IS NULL) every
    CROSS JOIN LATERAL (
        SELECT count(*)::integer AS count FROM (
            SELECT FROM mainspring.tasks t
            WHERE split_part(t.queue, '@', 1) = every.base AND t.status = 'held'
            LIMIT $2
        ) one
    ) counted
)
SELECT b.base, b.labels, b.paused,
    least($2, ready.count + CASE WHEN b.labels IS NULL THEN held.count ELSE 0 END + coming.due)
        AS ready,
    least($2, scheduled.count + coming.later) AS scheduled,
    coalesce(r.count, 0) AS running,
    extract(epoch FROM clock.now - least(oldest.scheduled_at, coming.oldest))::float8
        AS oldest_ready_seconds,
    (SELECT count(*)::integer FROM mainspring.workers w WHERE {{able}}) AS workers,
    held.count AS held, b.concurrency, b.rate, b.burst, b.group_concurrency, b.group_rate,
    b.group_burst
FROM clock
CROSS JOIN mainspring.queues b
JOIN held ON held.base = b.base
LEFT JOIN running r ON r.queue = b.name
CROSS JOIN LATERAL (
    SELECT (
        SELECT count(*)::integer FROM (
            SELECT FROM mainspring.tasks t
            WHERE b.labels IS NULL AND split_part(t.queue, '@', 1) = b.name
                AND t.status = 'coming' AND t.scheduled_at <= clock.now
            LIMIT $2
        ) one
    ) AS due, (
        SELECT count(*)::integer FROM (
            SELECT FROM mainspring.tasks t
            WHERE b.labels IS NULL AND split_part(t.queue, '@', 1) = b.name
                AND t.status = 'coming' AND t.scheduled_at > clock.now
            LIMIT $2
        ) one
    ) AS later, least((
        SELECT t.scheduled_at FROM mainspring.tasks t
        WHERE b.labels IS NULL AND split_part(t.queue, '@', 1) = b.name
            AND t.status = 'coming' AND t.scheduled_at <= clock.now
        ORDER BY t.scheduled_at LIMIT 1
    ), (
        SELECT min(first.scheduled_at) FROM (
            SELECT l.group_key, l.priority FROM mainspring.lines l
            WHERE b.labels IS NULL AND l.queue = b.name
            LIMIT $2
        ) l
        CROSS JOIN LATERAL (
            SELECT t.scheduled_at FROM mainspring.tasks t
            WHERE split_part(t.queue, '@', 1) = b.name AND t.group_key = l.group_key
                AND t.priority = l.priority AND t.status = 'held'
            ORDER BY t.queue, t.scheduled_at, t.id LIMIT 1
        ) first
    )) AS oldest
) coming
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS count FROM (
        SELECT FROM generate_series(0, 10) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.tasks t
            WHERE t.queue = b.name AND t.priority = p.priority
                AND t.status IN ('pending', 'retrying') AND t.scheduled_at <= clock.now
            LIMIT $2
        ) one
        LIMIT $2
    ) counted
) ready
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS count FROM (
        SELECT FROM generate_series(0, 10) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.tasks t
            WHERE t.queue = b.name AND t.priority = p.priority
                AND t.status IN ('pending', 'retrying') AND t.scheduled_at > clock.now
            LIMIT $2
        ) one
        LIMIT $2
    ) counted
) scheduled
LEFT JOIN LATERAL (
    SELECT min(head.scheduled_at) AS scheduled_at
    FROM generate_series(0, 10) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT t.scheduled_at FROM mainspring.tasks t
        WHERE t.queue = b.name AND t.priority = p.priority
            AND t.status IN ('pending', 'retrying') AND t.scheduled_at <= clock.now
        ORDER BY t.scheduled_at, t.id LIMIT 1
    ) head
) oldest ON true
ORDER BY b.name;
