-- Schedules, and what became of each of their nominal times.

CREATE TABLE mainspring.schedules (
    id uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    revision bigint NOT NULL DEFAULT 1,
    status text COLLATE "C" NOT NULL,
    note text NOT NULL DEFAULT '',
    version integer NOT NULL,
    cursor_version integer NOT NULL,
    next_nominal timestamptz,
    last_nominal timestamptz,
    runs bigint NOT NULL DEFAULT 0,
    buffered timestamptz[] NOT NULL DEFAULT '{}',
    consecutive_failures integer NOT NULL DEFAULT 0,
    -- When the planner looks at it next. NULL: when something happens to it.
    plan_at timestamptz,
    timezone text COLLATE "C" NOT NULL,
    zone_print text COLLATE "C" NOT NULL,
    problem text NOT NULL DEFAULT '',
    problem_count integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    -- What each run submits.
    task_type text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    timeout_seconds float8 NOT NULL,
    max_retries integer NOT NULL,
    backoff_kind text COLLATE "C" NOT NULL,
    backoff float8[],
    payload json NOT NULL,
    spec json NOT NULL,
    CONSTRAINT schedules_status CHECK (status IN ('active', 'paused', 'completed')),
    CONSTRAINT schedules_name CHECK (octet_length(name) BETWEEN 1 AND 200)
) WITH (fillfactor = 70);

-- A name is free again once its schedule is deleted.
CREATE UNIQUE INDEX schedules_by_name ON mainspring.schedules (name) WHERE deleted_at IS NULL;

-- Planning: the head of this index is what is due.
CREATE INDEX schedules_due ON mainspring.schedules (plan_at, id) WHERE plan_at IS NOT NULL;

-- Schedules that wait for a run of theirs to end.
CREATE INDEX schedules_buffering ON mainspring.schedules (id)
    WHERE buffered <> '{}' AND status = 'active' AND deleted_at IS NULL;

CREATE TABLE mainspring.ticks (
    schedule_id uuid NOT NULL,
    nominal_at timestamptz NOT NULL,
    decided_at timestamptz NOT NULL,
    -- The last of the skipped times that begin with this one.
    until_at timestamptz,
    start_by timestamptz,
    ended_at timestamptz,
    task_id uuid,
    count integer NOT NULL DEFAULT 1,
    exact boolean NOT NULL DEFAULT true,
    lateness_seconds float8 NOT NULL DEFAULT 0,
    outcome text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    task_status text COLLATE "C",
    -- What makes a nominal time happen once, whoever plans it and however often.
    PRIMARY KEY (schedule_id, nominal_at),
    CONSTRAINT ticks_outcome CHECK (outcome IN ('task', 'skipped', 'buffered')),
    CONSTRAINT ticks_task CHECK (outcome <> 'task' OR task_id IS NOT NULL)
) WITH (fillfactor = 80);

-- Runs that are not known to have ended: what overlap policies count.
CREATE INDEX ticks_open ON mainspring.ticks (schedule_id, nominal_at)
    WHERE outcome = 'task' AND ended_at IS NULL;

-- Runs that must have started by a certain time.
CREATE INDEX ticks_to_start ON mainspring.ticks (start_by)
    WHERE outcome = 'task' AND ended_at IS NULL AND start_by IS NOT NULL;

-- Only what is out of the ordinary is counted, so an ordinary tick does not write here.
CREATE TABLE mainspring.schedule_counts (
    schedule_id uuid NOT NULL,
    what text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (schedule_id, what)
);

-- Every task knows the tick it was made for. Tasks that no schedule made store nothing for it.
ALTER TABLE mainspring.tasks
    ADD COLUMN schedule text COLLATE "C",
    ADD COLUMN nominal_at timestamptz,
    ADD COLUMN previous_nominal_at timestamptz;
ALTER TABLE mainspring.dead_letters
    ADD COLUMN schedule text COLLATE "C",
    ADD COLUMN nominal_at timestamptz,
    ADD COLUMN previous_nominal_at timestamptz;
ALTER TABLE mainspring.task_history
    ADD COLUMN schedule text COLLATE "C",
    ADD COLUMN nominal_at timestamptz,
    ADD COLUMN previous_nominal_at timestamptz;

-- Listing the live tasks of a schedule. Plain tasks are not in it.
CREATE INDEX tasks_of_schedule ON mainspring.tasks (schedule, id) WHERE schedule IS NOT NULL;

-- The same function, which takes the tick along to the history, too. Completes a running task in
-- the caller's own transaction. False: the lease is lost, and the caller has to roll back.
-- transition: complete
CREATE OR REPLACE FUNCTION mainspring.complete_v1(
    task_id uuid, token bigint, result text, at timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE sql AS $$
    WITH ended AS (
        DELETE FROM mainspring.tasks t
        WHERE t.id = complete_v1.task_id AND t.status = 'running'
            AND t.fencing_token = complete_v1.token
        RETURNING t.*
    ), kept AS (
        INSERT INTO mainspring.task_history (
            id, scheduled_at, created_at, started_at, completed_at, fencing_token,
            timeout_seconds, attempt_count, crash_count, max_retries, priority, status, queue,
            task_type, worker_id, key, backoff_kind, backoff, payload, progress, result, attempts,
            schedule, nominal_at, previous_nominal_at)
        SELECT
            e.id, e.scheduled_at, e.created_at, e.started_at,
            coalesce(complete_v1.at, clock_timestamp()), e.fencing_token, e.timeout_seconds,
            e.attempt_count, e.crash_count, e.max_retries, e.priority, 'completed', e.queue,
            e.task_type, e.worker_id, e.key, e.backoff_kind, e.backoff, e.payload, e.progress,
            complete_v1.result::json, e.attempts, e.schedule, e.nominal_at, e.previous_nominal_at
        FROM ended e
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM kept)
$$;
