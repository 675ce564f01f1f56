-- fragment: claim_starts
-- Where the ranges of the served queues begin; a statement says which those are.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), starts AS MATERIALIZED (
    SELECT q.name AS queue, p.priority::smallint AS priority,
        CASE WHEN q.labels IS NULL THEN q.limited ELSE (
            SELECT b.limited FROM mainspring.queues b WHERE b.name = q.base) IS TRUE
        END AS limited,
        coalesce(c.start_at, '-infinity'::timestamptz) AS start_at,
        coalesce(c.start_id, '00000000-0000-0000-0000-000000000000'::uuid) AS start_id
    FROM mainspring.queues q
    CROSS JOIN generate_series(0, 10) AS p (priority)
    LEFT JOIN unnest($14::text[], $15::smallint[], $16::timestamptz[], $17::uuid[])
        AS c (queue, priority, start_at, start_id) ON c.queue = q.name AND c.priority = p.priority

-- fragment: claim_due
-- The claim from the ranges that begin there.
), heads AS MATERIALIZED (
    SELECT s.queue, s.priority, s.limited, head.scheduled_at, head.id, head.known
    FROM clock
    CROSS JOIN starts s
    CROSS JOIN LATERAL (
        -- The first task of a known type, or else how far so many of other types reach: the next
        -- claim reads on from there.
        SELECT n.scheduled_at, n.id, n.known FROM (
            SELECT t.scheduled_at, t.id,
                t.task_type = ANY ($5::text[]) AND (NOT s.limited OR t.group_key IS NOT NULL) AS known,
                row_number() OVER (ORDER BY t.scheduled_at, t.id) AS place
            FROM mainspring.tasks t
            WHERE t.queue = s.queue AND t.priority = s.priority
                AND t.status IN ('pending', 'retrying')
                AND (t.scheduled_at, t.id) >= (s.start_at, s.start_id)
                AND t.scheduled_at <= clock.now
            ORDER BY t.scheduled_at, t.id
            LIMIT 2000
        ) n
        WHERE n.known OR n.place = 2000
        ORDER BY n.scheduled_at
        LIMIT 1
    ) head
), ranges AS MATERIALIZED (
    SELECT h.queue, h.priority, h.limited, a.lane, h.scheduled_at AS head,
        clock.now - make_interval(secs => a.youngest) AS high,
        coalesce(clock.now - make_interval(secs => a.oldest), '-infinity'::timestamptz) AS low
    FROM clock
    CROSS JOIN heads h
    JOIN unnest(
        $7::text::smallint[], $8::text::smallint[], $9::text::float8[], $10::text::float8[])
        AS a (priority, lane, youngest, oldest) ON a.priority = h.priority
    WHERE h.known AND h.scheduled_at <= clock.now - make_interval(secs => a.youngest)
), lanes AS MATERIALIZED (
    SELECT l.lane, l.step, l.served, r.count AS ranges,
        least($3::integer, 2 + ceil($3::float8 * l.weight / sum(l.weight) OVER ()))::integer AS quota
    FROM unnest($11::text::integer[], $12::text::bigint[], $13::text::bigint[])
        WITH ORDINALITY AS l (weight, step, served, lane)
    JOIN (SELECT lane, count(*) FROM ranges GROUP BY lane) r ON r.lane = l.lane
), places AS MATERIALIZED (
    SELECT best.queue, best.priority, best.lane, count(*) AS count
    FROM (
        SELECT r.queue, r.priority, r.lane, l.quota,
            row_number() OVER (PARTITION BY r.lane ORDER BY c.rank, c.id) AS place
        FROM ranges r
        JOIN lanes l ON l.lane = r.lane AND l.ranges > 1
        CROSS JOIN LATERAL (
            SELECT t.id, t.scheduled_at + make_interval(mins => 10 * r.priority) AS rank
            FROM mainspring.tasks t
            WHERE t.queue = r.queue AND t.priority = r.priority
                AND t.status IN ('pending', 'retrying')
                AND t.scheduled_at >= r.head AND t.scheduled_at > r.low
                AND t.scheduled_at <= r.high AND t.task_type = ANY ($5::text[])
                AND (NOT r.limited OR t.group_key IS NOT NULL)
            ORDER BY t.scheduled_at, t.id LIMIT l.quota
        ) c
    ) best
    WHERE best.place <= best.quota
    GROUP BY best.queue, best.priority, best.lane
), candidates AS MATERIALIZED (
    SELECT r.queue, r.priority, r.lane, l.step, l.served, wanted.count AS wanted, c.id,
        c.scheduled_at + make_interval(mins => 10 * r.priority) AS rank
    FROM ranges r
    JOIN lanes l ON l.lane = r.lane
    LEFT JOIN places p ON p.lane = r.lane AND p.queue = r.queue AND p.priority = r.priority
    CROSS JOIN LATERAL (
        SELECT CASE WHEN l.ranges = 1 THEN l.quota ELSE least(l.quota, 2 + coalesce(p.count, 0)) END
            AS count
    ) wanted
    CROSS JOIN LATERAL (
        SELECT t.id, t.scheduled_at FROM mainspring.tasks t
        WHERE t.queue = r.queue AND t.priority = r.priority
            AND t.status IN ('pending', 'retrying')
            AND t.scheduled_at >= r.head AND t.scheduled_at > r.low AND t.scheduled_at <= r.high
            AND t.task_type = ANY ($5::text[])
            AND (NOT r.limited OR t.group_key IS NOT NULL)
        ORDER BY t.scheduled_at, t.id LIMIT wanted.count
        FOR UPDATE SKIP LOCKED
    ) c
), chosen AS MATERIALIZED (
    SELECT turns.id, turns.lane
    FROM (
        SELECT c.id, c.lane,
            (c.served + row_number() OVER (PARTITION BY c.lane ORDER BY c.rank, c.id)) * c.step AS turn
        FROM candidates c
    ) turns
    ORDER BY turns.turn, turns.lane
    LIMIT $3
), claimed AS (
    UPDATE mainspring.tasks t SET
        status = 'running',
        worker_id = $2,
        fencing_token = t.fencing_token + 1,
        attempt_count = t.attempt_count + 1,
        started_at = clock.now,
        lease_expires_at = clock.now + make_interval(secs => $4)
    FROM chosen c, clock
    WHERE t.id = ANY (ARRAY[c.id]) AND t.status <> 'running'
    RETURNING t.id, c.lane, t.fencing_token, t.task_type, t.payload, t.queue, t.priority,
        t.scheduled_at, t.created_at, t.started_at, t.attempt_count, t.max_retries,
        t.timeout_seconds, t.backoff_kind, t.backoff, t.crash_count,
        t.schedule, t.nominal_at, t.previous_nominal_at, t.group_key
)
SELECT claimed.*, NULL::boolean AS held_back, NULL::float8 AS next_due, NULL::float8 AS gate_due,
    NULL::timestamptz AS now, NULL::text[] AS queues, NULL::boolean AS unread,
    NULL::text[] AS head_queues, NULL::smallint[] AS head_priorities,
    NULL::timestamptz[] AS head_times, NULL::uuid[] AS head_ids
FROM claimed
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL, NULL,
    EXISTS (
        SELECT FROM candidates c GROUP BY c.queue, c.priority, c.lane, c.wanted
        HAVING count(*) >= c.wanted),
    CASE WHEN (SELECT count(*) FROM chosen) < $3 THEN (
        SELECT extract(epoch FROM min(coming.scheduled_at + w.wait) - clock.now)::float8
        FROM starts s
        JOIN (
            SELECT u.priority, make_interval(secs => u.wait) AS wait
            FROM unnest($18::text::smallint[], $19::text::float8[]) AS u (priority, wait)
        ) w ON w.priority = s.priority
        CROSS JOIN LATERAL (
            -- Of the next hundred the first that could be taken; else the last, as a bound.
            SELECT n.scheduled_at FROM (
                SELECT t.scheduled_at, t.task_type,
                    row_number() OVER (ORDER BY t.scheduled_at, t.id) AS place
                FROM mainspring.tasks t
                WHERE t.queue = s.queue AND t.priority = s.priority
                    AND t.status IN ('pending', 'retrying')
                    AND t.scheduled_at > clock.now - w.wait
                ORDER BY t.scheduled_at, t.id
                LIMIT 100
            ) n
            WHERE n.task_type = ANY ($5::text[]) OR n.place = 100
            ORDER BY n.scheduled_at
            LIMIT 1
        ) coming
    ) END,
    (
        SELECT extract(epoch FROM min(gate.at) - clock.now)::float8
        FROM starts s
        CROSS JOIN LATERAL (
            SELECT least((
                SELECT t.scheduled_at FROM mainspring.tasks t
                WHERE split_part(t.queue, '@', 1) = s.queue AND t.status = 'coming'
                ORDER BY t.scheduled_at LIMIT 1
            ), (
                SELECT g.ready_at FROM mainspring.gates g WHERE g.queue = s.queue
            ), (
                SELECT min(stray.scheduled_at) FROM generate_series(0, 10) AS p (priority)
                CROSS JOIN LATERAL (
                    SELECT t.scheduled_at FROM mainspring.tasks t
                    WHERE s.limited AND t.queue = s.queue AND t.priority = p.priority
                        AND t.status IN ('pending', 'retrying') AND t.group_key IS NULL
                    ORDER BY t.scheduled_at, t.id LIMIT 1
                ) stray
            )) AS at
        ) gate
        WHERE s.priority = 0
    ),
    clock.now,
    (SELECT array_agg(s.queue) FROM starts s WHERE s.priority = 0),
    EXISTS (SELECT FROM heads h WHERE NOT h.known),
    (SELECT array_agg(h.queue) FROM heads h),
    (SELECT array_agg(h.priority) FROM heads h),
    (SELECT array_agg(h.scheduled_at) FROM heads h),
    (SELECT array_agg(h.id) FROM heads h)
FROM clock;

-- name: claim
-- One statement looks at the head of each waiting range, gives every lane its quota, locks that
-- much, puts it in the order of turns and leases the first of it. A range is a priority of a queue
-- cut at the ages that change its lane, so aging is never written. Where several ranges make up a
-- lane, the best of the lane are counted by range first, without locks, so that hardly more is
-- locked than is leased.
-- The last row of the answer has no id: it says whether a quota held something back, whether a
-- range was not read to its end, how long until the next task is due and until a gate is worth looking
-- at (0 and below: it is), what was looked at and where its ranges begin.
-- Of a queue with a limit only what was admitted is taken, which has a group key.
-- $1 now or NULL, $2 worker, $3 limit, $4 lease seconds, $5 task types, $6 queues or NULL,
-- $7-$10 priority, lane, youngest and oldest age of each range, $11-$13 weight, step and turns
-- served by lane, $14-$17 queue, priority, time and id from which ranges are read that need not be
-- read from their beginning, $18 and $19 priorities and ages at which a task becomes takeable.
-- Rows are joined by `= ANY (ARRAY[...])`, as everywhere: see `fragments.sql`.
-- transition: claim
{{claim_starts}}
    WHERE NOT q.paused AND q.labels IS NULL AND ($6::text[] IS NULL OR q.name = ANY ($6::text[]))
{{claim_due}};

-- name: claim_placed
-- The same for a worker that offers labels: also from branches of queues, which were chosen before
-- by what it offers. A statement of its own, so that workers without labels pay nothing for it.
-- $1-$19 as in the claim, $20 the branches.
-- transition: claim
{{claim_starts}}
    WHERE NOT q.paused AND CASE
        WHEN q.labels IS NULL THEN $6::text[] IS NULL OR q.name = ANY ($6::text[])
        ELSE q.name = ANY ($20::text[]) AND (
            SELECT b.paused FROM mainspring.queues b WHERE b.name = q.base) IS NOT TRUE
    END
{{claim_due}};
