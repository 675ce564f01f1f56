-- fragment: schedule_columns
-- A schedule in the columns that every read of it returns, but for its live runs and its counts.
s.id, s.name, s.revision, s.status, s.note, s.version, s.cursor_version, s.next_nominal,
s.last_nominal, s.runs, s.buffered, s.consecutive_failures, s.plan_at, s.timezone, s.zone_print,
s.problem, s.problem_count, s.created_at, s.updated_at, s.task_type, s.queue, s.priority,
s.timeout_seconds, s.max_retries, s.backoff_kind, s.backoff, s.payload, s.spec, s.group_key,
s.unique_key, s.webhook

-- fragment: live_runs
-- How many runs of a schedule are live: a probe of the task for each run not known to have ended.
-- Backfilled runs are beside the timetable and hold nothing up.
(SELECT count(*)::integer FROM mainspring.ticks k
    WHERE k.schedule_id = s.id AND k.outcome = 'task' AND k.ended_at IS NULL
        AND k.kind <> 'backfill'
        AND EXISTS (SELECT FROM mainspring.tasks t WHERE t.id = k.task_id OFFSET 0)) AS unfinished

-- fragment: not_deleted
-- Of a schedule that is looked up by its id. Not written as the condition of the index of names,
-- which would else be walked for it.
num_nonnulls(s.deleted_at) = 0

-- fragment: schedule_totals
-- What is out of the ordinary, counted since the schedule was made.
(SELECT json_object_agg(c.what, c.count) FROM mainspring.schedule_counts c
    WHERE c.schedule_id = s.id) AS counts

-- name: store_time
-- The clock that decides what is due.
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now;

-- name: create_schedule
-- Nothing when the name is taken.
-- $1 now or NULL, $2-$27 as `schedule_rows.schedule_row` gives them, $28 since when it has times, or NULL.
INSERT INTO mainspring.schedules (
    id, name, status, note, version, cursor_version, next_nominal, last_nominal, runs, buffered,
    consecutive_failures, plan_at, timezone, zone_print, task_type, queue, priority,
    timeout_seconds, max_retries, backoff_kind, backoff, payload, spec, group_key, unique_key, webhook,
    problem, problem_count, created_at, updated_at)
SELECT $2::uuid, $3, $4, $5, $6::integer, $7::integer, $8::timestamptz, $9::timestamptz, $10::bigint,
    $11::text::timestamptz[], $12::integer, $13::timestamptz, $14, $15, $16, $17, $18::smallint,
    $19::float8, $20::integer, $21, $22::float8[], $23::text::json, $24::text::json, $25, $26,
    $27::text::json, '', 0, coalesce($28::timestamptz, n.now), n.now
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) n
ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING
RETURNING id;

-- name: replace_schedule
-- Everything but the id, the name and the counts, if nobody changed it since it was read.
-- $1 now or NULL, $2-$27 as for creating it, $28 the revision that was read.
UPDATE mainspring.schedules s SET
    revision = s.revision + 1, status = $4, note = $5, version = $6::integer,
    cursor_version = $7::integer, next_nominal = $8::timestamptz, last_nominal = $9::timestamptz,
    runs = $10::bigint, buffered = $11::text::timestamptz[], consecutive_failures = $12::integer,
    plan_at = $13::timestamptz, timezone = $14, zone_print = $15, task_type = $16, queue = $17,
    priority = $18::smallint, timeout_seconds = $19::float8, max_retries = $20::integer,
    backoff_kind = $21, backoff = $22::float8[], payload = $23::text::json, spec = $24::text::json,
    group_key = $25, unique_key = $26, webhook = $27::text::json, problem = '', problem_count = 0, updated_at = coalesce($1::timestamptz, clock_timestamp())
WHERE s.id = $2::uuid AND s.name = $3 AND s.revision = $28::bigint AND s.deleted_at IS NULL
RETURNING s.id;

-- name: get_schedule
-- $1 name.
SELECT {{schedule_columns}}, {{live_runs}}, {{schedule_totals}}
FROM mainspring.schedules s WHERE s.name = $1 AND s.deleted_at IS NULL;

-- name: list_schedules
-- $1 name after which to begin, $2 limit.
SELECT {{schedule_columns}}, {{live_runs}}, {{schedule_totals}}
FROM mainspring.schedules s WHERE s.name > $1 AND s.deleted_at IS NULL
ORDER BY s.name LIMIT $2;

-- name: load_schedules
-- $1 ids.
SELECT {{schedule_columns}}, {{live_runs}}, NULL::json AS counts
FROM unnest($1::uuid[]) AS wanted (id)
JOIN mainspring.schedules s ON s.id = ANY (ARRAY[wanted.id])
WHERE {{not_deleted}};

-- name: delete_schedule
-- The row stays until its ticks are removed, which may be too many for one statement.
-- $1 now or NULL, $2 name.
UPDATE mainspring.schedules s SET
    deleted_at = coalesce($1::timestamptz, clock_timestamp()), plan_at = NULL,
    revision = s.revision + 1
WHERE s.name = $2 AND s.deleted_at IS NULL
RETURNING s.id;

-- name: due_schedules
-- What is due by the clock, and what waited for a run that is not live any more.
-- $1 now or NULL, $2 limit, $3 partitions or NULL for all.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), due AS MATERIALIZED (
    SELECT s.id, s.plan_at FROM mainspring.schedules s
    WHERE s.plan_at <= (SELECT now FROM clock)
        AND ($3::smallint[] IS NULL OR mainspring.partition_of(s.id) = ANY ($3))
    ORDER BY s.plan_at, s.id LIMIT $2
), released AS MATERIALIZED (
    SELECT s.id, clock.now AS plan_at FROM clock, mainspring.schedules s
    WHERE s.buffered <> '{}' AND s.status = 'active' AND s.deleted_at IS NULL
        AND s.problem_count = 0
        AND ($3::smallint[] IS NULL OR mainspring.partition_of(s.id) = ANY ($3))
        AND NOT EXISTS (
            SELECT FROM mainspring.ticks k
            WHERE k.schedule_id = s.id AND k.outcome = 'task' AND k.ended_at IS NULL
                AND k.kind <> 'backfill'
                AND EXISTS (SELECT FROM mainspring.tasks t WHERE t.id = k.task_id OFFSET 0)
            OFFSET 0)
    LIMIT $2
)
SELECT {{schedule_columns}}, {{live_runs}}, NULL::json AS counts, clock.now
FROM clock,
    (SELECT d.id, min(d.plan_at) AS plan_at
        FROM (SELECT * FROM due UNION ALL SELECT * FROM released) d
        GROUP BY d.id ORDER BY min(d.plan_at), d.id LIMIT $2) found
JOIN mainspring.schedules s ON s.id = ANY (ARRAY[found.id])
ORDER BY found.plan_at, found.id;

-- name: next_plan
-- When there is something to plan again.
-- $1 now or NULL, $2 partitions or NULL for all.
SELECT clock.now, (
    SELECT extract(epoch FROM s.plan_at - clock.now)::float8 FROM mainspring.schedules s
    WHERE s.plan_at > clock.now
        AND ($2::smallint[] IS NULL OR mainspring.partition_of(s.id) = ANY ($2))
    ORDER BY s.plan_at LIMIT 1) AS next_seconds
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) clock;

-- name: commit_plans
-- Each schedule whose revision is still the one that was planned gets its new state, its ticks and
-- their tasks, all in this one statement. A row that somebody else is changing is skipped: what was
-- planned for it is out of date anyway. The key of the ticks decides about every task. The epochs of
-- a scheduler are locked, so that no later one is issued before this is committed.
-- $1 now or NULL; of each schedule $2 id, $3 revision, $4 status, $5 note, $6 cursor version,
-- $7 and $8 next and last nominal time, $9 runs, $10 buffered times, $11 failures in a row,
-- $12 time to plan again, $13 zone print, $14 whether unfinished runs are cancelled;
-- of each tick $15 schedule, $16 nominal time, $17 outcome, $18 kind, $19 reason, $20 last time,
-- $21 count, $22 whether it is exact, $23 lateness, $24 whether it counts as late, $25 start
-- deadline, $26 task; of each task $27 id, $28 type, $29 payload, $30 queue, $31 priority,
-- $32 time, $33 timeout, $34 retries, $35-$36 back-off, $37-$39 schedule, nominal time and
-- the one before; of each ended run $40 schedule, $41 nominal time, $42 status, $43 end;
-- $44 reason of cancellations; $45 partitions and $46 their epochs, or NULL for a person; of each task
-- $47 group key and $48 unique key; $49 their webhooks as JSON; $50 the longest wait for a lock, such as
-- '100ms', or NULL. A column of a tick or task may be NULL: all have the default.
-- transition: submit
-- transition: cancel_waiting
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
    FROM (SELECT CASE WHEN $50::text IS NOT NULL THEN set_config('lock_timeout', $50, true) END) patience
), planned AS MATERIALIZED (
    SELECT * FROM unnest(
        $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::integer[], $7::timestamptz[],
        $8::timestamptz[], $9::bigint[], $10::text[], $11::integer[], $12::timestamptz[],
        $13::text[], $14::boolean[])
        AS p (id, revision, status, note, cursor_version, next_nominal, last_nominal, runs,
            buffered, failures, plan_at, zone_print, cancels)
), fenced AS MATERIALIZED (
    SELECT f.partition FROM unnest($45::smallint[], $46::bigint[]) AS mine (partition, epoch)
    JOIN mainspring.partitions f ON f.partition = mine.partition AND f.epoch = mine.epoch
    WHERE f.partition IN (SELECT mainspring.partition_of(p.id) FROM planned p)
    FOR SHARE OF f
), held AS MATERIALIZED (
    SELECT s.id FROM planned p
    JOIN mainspring.schedules s ON s.id = ANY (ARRAY[p.id])
    WHERE s.revision = p.revision AND {{not_deleted}}
        AND ($45::smallint[] IS NULL
            OR mainspring.partition_of(p.id) IN (SELECT f.partition FROM fenced f))
    FOR UPDATE OF s SKIP LOCKED
), saved AS (
    UPDATE mainspring.schedules s SET
        revision = s.revision + 1, status = p.status, note = p.note,
        cursor_version = p.cursor_version, next_nominal = p.next_nominal,
        last_nominal = p.last_nominal, runs = p.runs, buffered = p.buffered::timestamptz[],
        consecutive_failures = p.failures, plan_at = p.plan_at, zone_print = p.zone_print,
        problem = '', problem_count = 0, updated_at = clock.now
    FROM clock, planned p JOIN held h ON h.id = p.id
    WHERE s.id = ANY (ARRAY[p.id])
    RETURNING s.id, p.cancels
), wanted AS MATERIALIZED (
    SELECT d.schedule_id, d.nominal_at, coalesce(d.outcome, 'task') AS outcome,
        coalesce(d.kind, 'scheduled') AS kind, d.reason, d.until_at, coalesce(d.count, 1) AS count,
        coalesce(d.exact, true) AS exact, d.lateness_seconds, coalesce(d.late, false) AS late,
        d.start_by, d.task_id
    FROM unnest(
        $15::uuid[], $16::timestamptz[], $17::text[], $18::text[], $19::text[], $20::timestamptz[],
        $21::integer[], $22::boolean[], $23::float8[], $24::boolean[], $25::timestamptz[],
        $26::uuid[])
        AS d (schedule_id, nominal_at, outcome, kind, reason, until_at, count, exact,
            lateness_seconds, late, start_by, task_id)
    JOIN saved ON saved.id = d.schedule_id
), twins AS MATERIALIZED (
    -- What is live with the unique key of a new task, or comes before it here. A tick that there is
    -- already makes no task; nobody adds one while the schedule is locked and as it was planned. What
    -- others store meanwhile shows as a violation of the key, and then all of this is done again.
    SELECT w.task_id, coalesce(live.id, w.first) AS id
    FROM (
        SELECT d.task_id, u.group_key, u.unique_key, first_value(d.task_id) OVER (
            PARTITION BY coalesce(u.group_key, ''), u.unique_key ORDER BY d.nominal_at, d.task_id) AS first
        FROM unnest($27::uuid[], $47::text[], $48::text[]) AS u (id, group_key, unique_key)
        JOIN wanted d ON d.task_id = u.id
        WHERE u.unique_key IS NOT NULL AND NOT EXISTS (
            SELECT FROM mainspring.ticks k
            WHERE k.schedule_id = d.schedule_id AND k.nominal_at = d.nominal_at
                AND NOT (k.outcome = 'buffered' OR (k.outcome = 'skipped' AND d.kind = 'backfill'))
            OFFSET 0)
    ) w
    LEFT JOIN LATERAL (
        SELECT t.id FROM mainspring.tasks t
        WHERE t.unique_key IS NOT NULL AND coalesce(t.group_key, '') = coalesce(w.group_key, '')
            AND t.unique_key = w.unique_key
        LIMIT 1
    ) live ON true
    WHERE coalesce(live.id, w.first) <> w.task_id
), decided AS MATERIALIZED (
    SELECT w.schedule_id, w.nominal_at, w.kind, w.until_at, w.count, w.exact, w.lateness_seconds,
        coalesce(twins.id, w.task_id) AS task_id,
        CASE WHEN twins.id IS NULL THEN w.outcome ELSE 'skipped' END AS outcome,
        CASE WHEN twins.id IS NULL THEN w.reason ELSE 'unique' END AS reason,
        CASE WHEN twins.id IS NULL THEN w.start_by END AS start_by,
        w.late AND twins.id IS NULL AS late
    FROM wanted w LEFT JOIN twins ON twins.task_id = w.task_id
), ticked AS (
    INSERT INTO mainspring.ticks AS k (
        schedule_id, nominal_at, decided_at, until_at, start_by, task_id, count, exact,
        lateness_seconds, outcome, kind, reason)
    SELECT d.schedule_id, d.nominal_at, clock.now, d.until_at, d.start_by, d.task_id, d.count,
        d.exact, d.lateness_seconds, d.outcome, d.kind, d.reason
    FROM clock, decided d
    ON CONFLICT (schedule_id, nominal_at) DO UPDATE SET
        decided_at = excluded.decided_at, start_by = excluded.start_by,
        task_id = excluded.task_id, outcome = excluded.outcome, kind = excluded.kind,
        lateness_seconds = excluded.lateness_seconds,
        reason = coalesce(excluded.reason, k.reason), ended_at = NULL, task_status = NULL
    WHERE k.outcome = 'buffered' OR (k.outcome = 'skipped' AND excluded.kind = 'backfill')
    RETURNING k.schedule_id, k.nominal_at, k.outcome, k.reason, k.task_id
), counted AS (
    INSERT INTO mainspring.schedule_counts AS c (schedule_id, what, count)
    SELECT x.schedule_id, x.what, sum(x.count) FROM (
        SELECT d.schedule_id, 'skipped:' || d.reason AS what, d.count FROM decided d
        JOIN ticked k ON k.schedule_id = d.schedule_id AND k.nominal_at = d.nominal_at
        WHERE d.outcome = 'skipped'
        UNION ALL
        SELECT d.schedule_id, 'late', 1 FROM decided d
        JOIN ticked k ON k.schedule_id = d.schedule_id AND k.nominal_at = d.nominal_at
        WHERE d.late
    ) x
    GROUP BY x.schedule_id, x.what
    ON CONFLICT (schedule_id, what) DO UPDATE SET count = c.count + excluded.count
), queued AS (
    INSERT INTO mainspring.queues (name)
    SELECT DISTINCT coalesce(q.queue, 'default') FROM unnest($27::uuid[], $30::text[]) AS q (id, queue)
    WHERE NOT EXISTS (SELECT FROM mainspring.queues known WHERE known.name = coalesce(q.queue, 'default'))
    ORDER BY 1
    ON CONFLICT DO NOTHING
), made AS (
    INSERT INTO mainspring.tasks (
        id, task_type, payload, queue, priority, scheduled_at, created_at, timeout_seconds,
        max_retries, backoff_kind, backoff, schedule, nominal_at, previous_nominal_at, group_key,
        unique_key, status)
    SELECT n.id, n.task_type, n.payload::json, coalesce(n.queue, 'default'),
        coalesce(n.priority, 5), greatest(n.scheduled_at, clock.now), clock.now,
        coalesce(n.timeout, 300), coalesce(n.retries, 3), coalesce(n.backoff_kind, 'exponential'),
        n.backoff::float8[], n.schedule, n.nominal_at, n.previous_at, n.group_key, n.unique_key,
        CASE WHEN n.group_key IS NULL THEN 'pending' ELSE 'coming' END
    FROM clock, unnest(
        $27::uuid[], $28::text[], $29::text[], $30::text[], $31::smallint[], $32::timestamptz[],
        $33::float8[], $34::integer[], $35::text[], $36::text[], $37::text[], $38::timestamptz[],
        $39::timestamptz[], $47::text[], $48::text[])
        AS n (id, task_type, payload, queue, priority, scheduled_at, timeout, retries,
            backoff_kind, backoff, schedule, nominal_at, previous_at, group_key, unique_key)
    JOIN ticked k ON k.task_id = n.id
    WHERE k.outcome = 'task' AND (coalesce(n.group_key, n.unique_key) IS NULL
        OR mainspring.check_run_key_v1(coalesce(n.group_key, n.unique_key)))
    -- In the order in which submissions take unique keys.
    ORDER BY n.unique_key COLLATE "C", n.group_key COLLATE "C", n.nominal_at
    RETURNING id
), given AS MATERIALIZED (
    SELECT w.* FROM json_to_recordset($49::text::json)
        AS w (task_id uuid, url text, events text[], sign text, queue text)
    JOIN made ON made.id = w.task_id
), {{keep_webhooks}}, previous AS MATERIALIZED (
    -- The runs that were there before this statement.
    SELECT t.id, t.status = 'running' AS running
    FROM saved
    CROSS JOIN LATERAL (
        SELECT k.task_id FROM mainspring.ticks k
        WHERE k.schedule_id = saved.id AND k.outcome = 'task' AND k.ended_at IS NULL
            AND k.kind <> 'backfill'
        OFFSET 0
    ) k
    JOIN mainspring.tasks t ON t.id = ANY (ARRAY[k.task_id])
    WHERE saved.cancels
    FOR UPDATE OF t
), told AS (
    UPDATE mainspring.tasks t SET
        cancel_requested_at = coalesce(t.cancel_requested_at, clock.now),
        cancel_reason = coalesce(t.cancel_reason, $44)
    FROM previous p, clock
    WHERE t.id = ANY (ARRAY[p.id]) AND p.running
    RETURNING t.id
), gone AS (
    DELETE FROM mainspring.tasks t USING previous p
    WHERE t.id = ANY (ARRAY[p.id]) AND NOT p.running
    RETURNING t.*
), buried AS (
    INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, reason)
    SELECT {{moved}}, attempts, 'cancelled', clock.now, $44 FROM gone, clock
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'cancelled' AS event,
        clock.now AS at, NULL::text AS error, $44::text AS reason
    FROM gone, clock
), {{webhooks}}, closed AS (
    UPDATE mainspring.ticks k SET
        ended_at = coalesce(e.ended_at, clock.now), task_status = e.status
    FROM clock, unnest($40::uuid[], $41::timestamptz[], $42::text[], $43::timestamptz[])
        AS e (schedule_id, nominal_at, status, ended_at)
    JOIN saved ON saved.id = e.schedule_id
    WHERE k.schedule_id = ANY (ARRAY[e.schedule_id]) AND k.nominal_at = ANY (ARRAY[e.nominal_at])
        AND k.ended_at IS NULL
)
SELECT saved.id, NULL::timestamptz AS nominal_at, EXISTS (SELECT FROM told) AS told,
    false AS stale, false AS met FROM saved
UNION ALL
SELECT k.schedule_id, k.nominal_at, NULL, false, k.outcome = 'skipped' FROM ticked k
WHERE k.outcome = 'task' OR (k.outcome = 'skipped' AND k.reason = 'unique')
UNION ALL
SELECT p.id, NULL, NULL, true, false FROM planned p
WHERE $45::smallint[] IS NOT NULL
    AND mainspring.partition_of(p.id) NOT IN (SELECT f.partition FROM fenced f);

-- name: report_problem
-- Paused for a while, and visible.
-- $1 now or NULL, $2 id, $3 revision, $4 what is wrong, $5 seconds, $6 partitions and $7 their
-- epochs or NULL.
WITH fenced AS MATERIALIZED (
    SELECT f.partition FROM unnest($6::smallint[], $7::bigint[]) AS mine (partition, epoch)
    JOIN mainspring.partitions f ON f.partition = mine.partition AND f.epoch = mine.epoch
    WHERE f.partition = mainspring.partition_of($2)
    FOR SHARE OF f
)
UPDATE mainspring.schedules s SET
    problem = $4, problem_count = s.problem_count + 1, revision = s.revision + 1,
    plan_at = coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => $5)
WHERE s.id = $2 AND s.revision = $3 AND {{not_deleted}}
    AND ($6::smallint[] IS NULL OR EXISTS (SELECT FROM fenced))
RETURNING s.id;

-- name: ended_runs
-- A part of the open runs, and of each whose task is not live what became of it. The last row is
-- where the part ends.
-- $1 schedule and $2 nominal time after which to begin, $3 limit, $4 partitions or NULL for all.
WITH part AS MATERIALIZED (
    SELECT k.schedule_id, k.nominal_at, k.task_id, k.kind FROM mainspring.ticks k
    WHERE k.outcome = 'task' AND k.ended_at IS NULL
        AND (k.schedule_id, k.nominal_at) > ($1::uuid, $2::timestamptz)
        AND ($4::smallint[] IS NULL OR mainspring.partition_of(k.schedule_id) = ANY ($4))
    ORDER BY k.schedule_id, k.nominal_at LIMIT $3
)
SELECT p.schedule_id, p.nominal_at, found.status, found.completed_at,
    p.kind <> 'backfill' AND (found.status IN ('failed', 'discarded') OR (
        found.status = 'completed'
        AND coalesce((SELECT s.consecutive_failures > 0 FROM mainspring.schedules s
            WHERE s.id = p.schedule_id AND {{not_deleted}}), false))) AS matters,
    NULL::bigint AS looked_at
FROM part p
LEFT JOIN LATERAL (
    SELECT 'failed' AS status, d.completed_at FROM mainspring.dead_letters d WHERE d.id = p.task_id
    UNION ALL
    SELECT h.status, h.completed_at FROM mainspring.task_history h WHERE h.id = p.task_id
    LIMIT 1
) found ON true
WHERE NOT EXISTS (SELECT FROM mainspring.tasks t WHERE t.id = p.task_id OFFSET 0)
UNION ALL
(SELECT p.schedule_id, p.nominal_at, NULL, NULL, NULL, (SELECT count(*) FROM part)
    FROM part p ORDER BY p.schedule_id DESC, p.nominal_at DESC LIMIT 1);

-- name: close_runs
-- $1 now or NULL, $2 schedules, $3 nominal times, $4 states, $5 ends, $6 partitions and $7 their
-- epochs or NULL.
WITH fenced AS MATERIALIZED (
    SELECT f.partition FROM unnest($6::smallint[], $7::bigint[]) AS mine (partition, epoch)
    JOIN mainspring.partitions f ON f.partition = mine.partition AND f.epoch = mine.epoch
    WHERE f.partition IN (SELECT mainspring.partition_of(e.id) FROM unnest($2::uuid[]) AS e (id))
    FOR SHARE OF f
)
UPDATE mainspring.ticks k SET
    ended_at = coalesce(e.ended_at, $1::timestamptz, clock_timestamp()), task_status = e.status
FROM unnest($2::uuid[], $3::timestamptz[], $4::text[], $5::timestamptz[])
    AS e (schedule_id, nominal_at, status, ended_at)
WHERE k.schedule_id = ANY (ARRAY[e.schedule_id]) AND k.nominal_at = ANY (ARRAY[e.nominal_at])
    AND k.ended_at IS NULL
    AND ($6::smallint[] IS NULL
        OR mainspring.partition_of(k.schedule_id) IN (SELECT f.partition FROM fenced f))
RETURNING k.nominal_at;

-- name: expire_starts
-- A task that has not started by its deadline never does. One that has is not looked at again. A
-- worker that claims it at this moment wins: the deletion waits for it and then finds it running.
-- $1 now or NULL, $2 limit, $3 reason, $4 partitions and $5 their epochs or NULL.
-- transition: cancel_waiting
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), fenced AS MATERIALIZED (
    -- Only where there is something to do: most of the time nothing is locked.
    SELECT f.partition FROM unnest($4::smallint[], $5::bigint[]) AS mine (partition, epoch)
    JOIN mainspring.partitions f ON f.partition = mine.partition AND f.epoch = mine.epoch
    WHERE f.partition IN (
        SELECT mainspring.partition_of(k.schedule_id) FROM mainspring.ticks k
        WHERE k.outcome = 'task' AND k.ended_at IS NULL AND k.start_by < (SELECT now FROM clock))
    FOR SHARE OF f
), overdue AS MATERIALIZED (
    SELECT k.schedule_id, k.nominal_at, k.task_id FROM mainspring.ticks k
    WHERE k.outcome = 'task' AND k.ended_at IS NULL AND k.start_by < (SELECT now FROM clock)
        AND ($4::smallint[] IS NULL
            OR mainspring.partition_of(k.schedule_id) IN (SELECT f.partition FROM fenced f))
    ORDER BY k.start_by LIMIT $2
    FOR UPDATE OF k SKIP LOCKED
), gone AS (
    DELETE FROM mainspring.tasks t USING overdue o
    WHERE t.id = ANY (ARRAY[o.task_id]) AND t.status <> 'running' AND t.started_at IS NULL
    RETURNING t.*, o.schedule_id
), buried AS (
    INSERT INTO mainspring.task_history ({{moved}}, attempts, status, completed_at, reason)
    SELECT {{moved}}, attempts, 'cancelled', clock.now, $3 FROM gone, clock
), endings AS (
    SELECT id, fencing_token, task_type, queue, attempt_count, 'cancelled' AS event,
        clock.now AS at, NULL::text AS error, $3::text AS reason
    FROM gone, clock
), {{webhooks}}, ticked AS (
    UPDATE mainspring.ticks k SET
        start_by = NULL,
        outcome = CASE WHEN g.id IS NULL THEN k.outcome ELSE 'skipped' END,
        reason = CASE WHEN g.id IS NULL THEN k.reason ELSE 'start_deadline' END,
        ended_at = CASE WHEN g.id IS NULL THEN k.ended_at ELSE clock.now END,
        task_status = CASE WHEN g.id IS NULL THEN k.task_status ELSE 'cancelled' END
    FROM clock, overdue o LEFT JOIN gone g ON g.id = o.task_id
    WHERE k.schedule_id = ANY (ARRAY[o.schedule_id]) AND k.nominal_at = ANY (ARRAY[o.nominal_at])
), counted AS (
    INSERT INTO mainspring.schedule_counts AS c (schedule_id, what, count)
    SELECT g.schedule_id, 'skipped:start_deadline', count(*) FROM gone g GROUP BY g.schedule_id
    ON CONFLICT (schedule_id, what) DO UPDATE SET count = c.count + excluded.count
)
SELECT g.schedule, g.nominal_at, (SELECT count(*) FROM overdue) AS looked_at
FROM overdue o LEFT JOIN gone g ON g.id = o.task_id;

-- name: ticks
-- The newest first, with the state of each task: live, or what it ended as.
-- $1 schedule, $2 limit, $3 nominal time before which to begin or NULL.
SELECT k.nominal_at, k.outcome, k.kind, k.reason, k.until_at, k.count, k.exact,
    k.lateness_seconds, k.decided_at, k.task_id,
    coalesce(k.task_status, (
        SELECT {{shown}} AS status FROM mainspring.tasks t WHERE t.id = k.task_id
        UNION ALL
        SELECT 'failed' FROM mainspring.dead_letters d WHERE d.id = k.task_id
        UNION ALL
        SELECT h.status FROM mainspring.task_history h WHERE h.id = k.task_id
        LIMIT 1)) AS task_status
FROM mainspring.ticks k
WHERE k.schedule_id = $1 AND k.nominal_at < coalesce($3::timestamptz, 'infinity')
ORDER BY k.nominal_at DESC
LIMIT $2;

-- name: zone_prints
-- Few, whatever the number of schedules. Asked once when a planner starts, which is worth no index.
SELECT DISTINCT s.timezone, s.zone_print FROM mainspring.schedules s
WHERE s.status = 'active' AND s.deleted_at IS NULL AND s.name > '';

-- name: schedules_of_zone
-- $1 zone, $2 zone print, $3 limit.
SELECT {{schedule_columns}}, {{live_runs}}, NULL::json AS counts
FROM mainspring.schedules s
WHERE s.status = 'active' AND s.deleted_at IS NULL AND s.name > '' AND s.timezone = $1
    AND s.zone_print = $2
LIMIT $3;

-- name: note_round
-- One row for all planners, written every few seconds. Kept as microseconds since 1970.
-- $1 now or NULL.
INSERT INTO mainspring.counters AS c (name, value)
SELECT 'planned_at',
    (extract(epoch FROM coalesce($1::timestamptz, clock_timestamp())) * 1000000)::bigint
ON CONFLICT (name) DO UPDATE SET value = greatest(c.value, excluded.value);

-- name: last_round
-- When any planner was last at work, as `note_round` left it. No row: never.
SELECT to_timestamp(c.value / 1000000.0) AS planned_at
FROM mainspring.counters c WHERE c.name = 'planned_at';

-- name: forget_ticks
-- Old ticks of each schedule from its oldest on, and all those of a deleted one.
-- $1 now or NULL, $2 seconds that they are kept, $3 limit.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), old AS MATERIALIZED (
    SELECT o.schedule_id, o.nominal_at FROM clock, mainspring.schedules s
    CROSS JOIN LATERAL (
        SELECT k.schedule_id, k.nominal_at FROM mainspring.ticks k
        WHERE k.schedule_id = s.id
            AND (s.deleted_at IS NOT NULL OR k.nominal_at < clock.now - make_interval(secs => $2))
            AND (k.outcome = 'skipped' OR k.ended_at IS NOT NULL
                OR (s.deleted_at IS NOT NULL AND k.outcome = 'buffered'))
        ORDER BY k.nominal_at LIMIT $3
    ) o
    WHERE s.id > '00000000-0000-0000-0000-000000000000'
    LIMIT $3
)
DELETE FROM mainspring.ticks k USING old o
WHERE k.schedule_id = ANY (ARRAY[o.schedule_id]) AND k.nominal_at = ANY (ARRAY[o.nominal_at])
RETURNING k.schedule_id;

-- name: forget_schedules
-- Deleted schedules whose ticks are all gone.
WITH gone AS (
    DELETE FROM mainspring.schedules s
    WHERE s.deleted_at IS NOT NULL AND s.id > '00000000-0000-0000-0000-000000000000'
        AND NOT EXISTS (SELECT FROM mainspring.ticks k WHERE k.schedule_id = s.id OFFSET 0)
    RETURNING s.id
)
DELETE FROM mainspring.schedule_counts c USING gone g
WHERE c.schedule_id = ANY (ARRAY[g.id])
RETURNING c.what;
