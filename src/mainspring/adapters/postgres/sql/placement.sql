-- fragment: able
-- Whether a worker w that is alive may take the tasks of a branch b.
b.labels <@ w.labels AND (w.queues IS NULL OR b.base = ANY (w.queues)) AND NOT w.draining
AND w.seen_at > clock.now - interval '15 seconds'

-- fragment: placement
-- Whether nobody can take a live task t. The workers are looked at for due tasks with labels alone:
-- one row for each such task, which no plan can turn into a look at all queues for every task.
CASE WHEN position('@' IN t.queue) > 0 AND t.status <> 'running' AND t.scheduled_at <= clock.now
    AND (
        SELECT w.worker_id FROM mainspring.queues b
        JOIN mainspring.workers w ON {{able}}
        WHERE b.name = t.queue AND t.task_type = ANY (w.task_types)
        LIMIT 1
    ) IS NULL
THEN 'no_worker' END

-- name: branches_due
-- For a worker that offers labels: the branches that it could take tasks of, whether one of them
-- has waited beyond the patience with less loaded workers, and else how many became due since, how
-- long until they have waited for so long, and until the next one is due.
-- $1 now or NULL, $2 labels, $3 queues or NULL, $4 task types, $5 seconds of patience, $6 bound of
-- the counts, $7-$10 from where ranges are read, as in the claim.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), branches AS MATERIALIZED (
    SELECT q.name FROM mainspring.queues q
    WHERE q.labels <@ $2::text[] AND ($3::text[] IS NULL OR q.base = ANY ($3::text[]))
        AND (SELECT b.paused FROM mainspring.queues b WHERE b.name = q.base) IS NOT TRUE
)
SELECT b.name, old.found AS is_open, young.count, young.task_types,
    extract(epoch FROM young.oldest - clock.now)::float8 + $5 AS wait,
    extract(epoch FROM coming.scheduled_at - clock.now)::float8 AS next_due
FROM clock
CROSS JOIN branches b
CROSS JOIN LATERAL (
    SELECT EXISTS (
        SELECT FROM generate_series(0, 10) AS p (priority)
        LEFT JOIN unnest($7::text[], $8::smallint[], $9::timestamptz[], $10::uuid[])
            AS c (queue, priority, start_at, start_id)
            ON c.queue = b.name AND c.priority = p.priority
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.tasks t
            WHERE t.queue = b.name AND t.priority = p.priority
                AND t.status IN ('pending', 'retrying')
                AND (t.scheduled_at, t.id) >= (
                    coalesce(c.start_at, '-infinity'::timestamptz),
                    coalesce(c.start_id, '00000000-0000-0000-0000-000000000000'::uuid))
                AND t.scheduled_at <= clock.now - make_interval(secs => $5)
                AND t.task_type = ANY ($4::text[])
            ORDER BY t.scheduled_at, t.id
            LIMIT 1
        ) one
    ) AS found
) old
CROSS JOIN LATERAL (
    SELECT count(*)::integer AS count, min(one.scheduled_at) AS oldest,
        array_agg(DISTINCT one.task_type) AS task_types
    FROM (
        SELECT n.scheduled_at, n.task_type FROM generate_series(0, 10) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT t.scheduled_at, t.task_type FROM mainspring.tasks t
            WHERE NOT old.found AND t.queue = b.name AND t.priority = p.priority
                AND t.status IN ('pending', 'retrying')
                AND t.scheduled_at > clock.now - make_interval(secs => $5)
                AND t.scheduled_at <= clock.now AND t.task_type = ANY ($4::text[])
            ORDER BY t.scheduled_at, t.id
            LIMIT $6
        ) n
        LIMIT $6
    ) one
) young
CROSS JOIN LATERAL (
    SELECT min(n.scheduled_at) AS scheduled_at FROM generate_series(0, 10) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT t.scheduled_at FROM mainspring.tasks t
        WHERE NOT old.found AND t.queue = b.name AND t.priority = p.priority
            AND t.status IN ('pending', 'retrying') AND t.scheduled_at > clock.now
        ORDER BY t.scheduled_at, t.id
        LIMIT 1
    ) n
) coming;

-- name: worker_loads
-- The live workers that offer labels, and how many tasks each holds at this moment.
-- $1 now or NULL, $2 seconds of silence.
SELECT w.worker_id, w.labels, w.queues, w.task_types, w.slots, coalesce(r.count, 0) AS running
FROM mainspring.workers w
LEFT JOIN (
    SELECT t.worker_id, count(*)::integer AS count FROM mainspring.tasks t
    WHERE t.status = 'running' AND t.lease_expires_at > '-infinity'
    GROUP BY t.worker_id
) r ON r.worker_id = w.worker_id
WHERE w.labels <> '{}' AND w.slots > 0 AND NOT w.draining
    AND w.seen_at > coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $2);

-- name: unplaceable
-- Due tasks that need labels and that no live worker can take, by branch. The oldest of each
-- priority are enough: what nobody takes stays there.
-- $1 now or NULL, $2 how many of each priority.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
SELECT b.base AS queue, b.labels, sum(due.count)::integer AS count,
    extract(epoch FROM clock.now - min(due.oldest))::float8 AS oldest_seconds
FROM clock
CROSS JOIN mainspring.queues b
CROSS JOIN LATERAL (
    SELECT head.task_type, count(*) AS count, min(head.scheduled_at) AS oldest
    FROM generate_series(0, 10) AS p (priority)
    CROSS JOIN LATERAL (
        SELECT t.task_type, t.scheduled_at FROM mainspring.tasks t
        WHERE t.queue = b.name AND t.priority = p.priority
            AND t.status IN ('pending', 'retrying') AND t.scheduled_at <= clock.now
        ORDER BY t.scheduled_at, t.id LIMIT $2
    ) head
    GROUP BY head.task_type
    UNION ALL
    SELECT head.task_type, count(*), min(head.scheduled_at)
    FROM (
        (SELECT t.queue, t.task_type, t.scheduled_at FROM mainspring.tasks t
            WHERE b.labels IS NOT NULL AND split_part(t.queue, '@', 1) = b.base
                AND t.status = 'coming' AND t.scheduled_at <= clock.now
            ORDER BY t.scheduled_at LIMIT $2)
        UNION ALL
        (SELECT t.queue, t.task_type, t.scheduled_at FROM mainspring.tasks t
            WHERE b.labels IS NOT NULL AND split_part(t.queue, '@', 1) = b.base
                AND t.status = 'held'
            LIMIT $2)
    ) head
    WHERE head.queue = b.name
    GROUP BY head.task_type
) due
WHERE b.labels IS NOT NULL AND NOT EXISTS (
    SELECT FROM mainspring.workers w WHERE {{able}} AND due.task_type = ANY (w.task_types))
GROUP BY b.base, b.labels, clock.now
ORDER BY b.base, b.labels;
