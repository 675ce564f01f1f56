-- The tables. Live tasks, dead letters and finished tasks are apart (docs/adr/0004), so that the
-- table that workers scan holds only what is still to do, however much has been done.

CREATE TABLE mainspring.tasks (
    id uuid PRIMARY KEY,
    scheduled_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    lease_expires_at timestamptz,
    cancel_requested_at timestamptz,
    fencing_token bigint NOT NULL DEFAULT 0,
    timeout_seconds float8 NOT NULL,
    attempt_count integer NOT NULL DEFAULT 0,
    crash_count integer NOT NULL DEFAULT 0,
    max_retries integer NOT NULL,
    priority smallint NOT NULL,
    status text COLLATE "C" NOT NULL DEFAULT 'pending',
    queue text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,
    worker_id text COLLATE "C",
    key text COLLATE "C",
    backoff_kind text COLLATE "C" NOT NULL,
    -- Base, multiplier and maximum; NULL is the default of the product.
    backoff float8[],
    cancel_reason text,
    -- json, not jsonb: what was submitted comes back character for character.
    payload json NOT NULL,
    progress json,
    -- The attempts that failed, oldest first.
    attempts jsonb,
    CONSTRAINT tasks_status CHECK (status IN ('pending', 'running', 'retrying')),
    CONSTRAINT tasks_lease CHECK ((status = 'running') = (lease_expires_at IS NOT NULL)),
    CONSTRAINT tasks_priority CHECK (priority BETWEEN 0 AND 10),
    CONSTRAINT tasks_max_retries CHECK (max_retries BETWEEN 0 AND 1000),
    CONSTRAINT tasks_timeout CHECK (timeout_seconds > 0 AND timeout_seconds <= 2592000),
    CONSTRAINT tasks_scheduled_at CHECK (scheduled_at BETWEEN '1970-01-01Z' AND '2300-01-01Z'),
    CONSTRAINT tasks_queue CHECK (octet_length(queue) BETWEEN 1 AND 200),
    CONSTRAINT tasks_task_type CHECK (octet_length(task_type) BETWEEN 1 AND 200),
    CONSTRAINT tasks_backoff_kind CHECK (backoff_kind IN ('exponential', 'linear', 'fixed'))
) WITH (
    -- Room on the page for the version that the claim writes, and a vacuum that keeps up with a
    -- table whose rows all change twice and then leave.
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0.05
);

-- Claiming: within a queue and a priority the head of the range is what has waited longest, and
-- what is not due yet lies behind everything that is. The id orders what is due at one instant,
-- as the tasks of one batch are.
CREATE INDEX tasks_waiting ON mainspring.tasks (queue, priority, scheduled_at, id)
    WHERE status IN ('pending', 'retrying');

-- Rescuing, and counting what runs. The condition is not on the status, which every guarded write
-- names: a planner that believes that nothing runs would else walk this index for each of them.
CREATE INDEX tasks_running ON mainspring.tasks (lease_expires_at)
    WHERE lease_expires_at IS NOT NULL;

CREATE TABLE mainspring.dead_letters (
    id uuid PRIMARY KEY,
    scheduled_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    completed_at timestamptz NOT NULL,
    fencing_token bigint NOT NULL,
    timeout_seconds float8 NOT NULL,
    attempt_count integer NOT NULL,
    crash_count integer NOT NULL,
    max_retries integer NOT NULL,
    priority smallint NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,
    worker_id text COLLATE "C",
    key text COLLATE "C",
    backoff_kind text COLLATE "C" NOT NULL,
    backoff float8[],
    payload json NOT NULL,
    progress json,
    attempts jsonb
);

-- Listing and replaying the dead letters of one type.
CREATE INDEX dead_letters_by_type ON mainspring.dead_letters (task_type, id);

CREATE TABLE mainspring.task_history (
    id uuid NOT NULL,
    scheduled_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    completed_at timestamptz NOT NULL,
    fencing_token bigint NOT NULL,
    timeout_seconds float8 NOT NULL,
    attempt_count integer NOT NULL,
    crash_count integer NOT NULL,
    max_retries integer NOT NULL,
    priority smallint NOT NULL,
    status text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    task_type text COLLATE "C" NOT NULL,
    worker_id text COLLATE "C",
    key text COLLATE "C",
    backoff_kind text COLLATE "C" NOT NULL,
    backoff float8[],
    reason text,
    payload json NOT NULL,
    progress json,
    result json,
    attempts jsonb,
    PRIMARY KEY (id),
    CONSTRAINT task_history_status CHECK (status IN ('completed', 'cancelled', 'discarded'))
) PARTITION BY RANGE (id);

-- Listing by type and status, newest first.
CREATE INDEX task_history_by_type ON mainspring.task_history (task_type, status, id);

-- Telling whether a month still has something young in it. Rows arrive in this order.
CREATE INDEX task_history_by_end ON mainspring.task_history USING brin (completed_at);

-- Whatever lies in no month: ids made under a clock that is far off.
CREATE TABLE mainspring.task_history_default PARTITION OF mainspring.task_history DEFAULT;

CREATE TABLE mainspring.queues (
    name text COLLATE "C" PRIMARY KEY,
    paused boolean NOT NULL DEFAULT false,
    CONSTRAINT queues_name CHECK (name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$')
);

CREATE TABLE mainspring.workers (
    worker_id text COLLATE "C" PRIMARY KEY,
    hostname text NOT NULL,
    pid integer NOT NULL,
    task_types text[] COLLATE "C" NOT NULL,
    queues text[],
    lanes text[],
    slots integer NOT NULL,
    busy integer NOT NULL,
    draining boolean NOT NULL,
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL
);

CREATE TABLE mainspring.idempotency (
    key text COLLATE "C" PRIMARY KEY,
    task_id uuid NOT NULL,
    fingerprint text COLLATE "C",
    created_at timestamptz NOT NULL,
    CONSTRAINT idempotency_key CHECK (char_length(key) BETWEEN 1 AND 255)
);

-- Forgetting the oldest.
CREATE INDEX idempotency_by_age ON mainspring.idempotency (created_at);
