-- Groups and unique tasks: what tasks of a queue share its starts and limits by, and which of them
-- must not be live twice.

-- A task with a group key is 'coming' until it is due and looked at, then 'held' until its group has
-- its turn and the limits leave room, and only then waits to be claimed: 'pending' or 'retrying'. So
-- claims never see what may not start yet, however much of it there is. People see all of it as pending
-- or retrying. In a queue that has a limit of its own, tasks without a group key are those of the
-- group ''.
ALTER TABLE mainspring.tasks
    ADD COLUMN group_key text COLLATE "C",
    ADD COLUMN unique_key text COLLATE "C",
    DROP CONSTRAINT tasks_state,
    -- Not checked against the rows that are there: they passed a stricter one.
    ADD CONSTRAINT tasks_state CHECK (
        status IN ('pending', 'running', 'retrying', 'coming', 'held')
        AND (status = 'running') = (lease_expires_at IS NOT NULL)) NOT VALID;

ALTER TABLE mainspring.dead_letters
    ADD COLUMN group_key text COLLATE "C",
    ADD COLUMN unique_key text COLLATE "C";

ALTER TABLE mainspring.task_history
    ADD COLUMN group_key text COLLATE "C",
    ADD COLUMN unique_key text COLLATE "C";

-- What people set: limits of the queue as a whole and of each of its groups. A rate is in starts a
-- second; burst is how many may start at once after a pause.
ALTER TABLE mainspring.queues
    ADD COLUMN concurrency integer,
    ADD COLUMN rate float8,
    ADD COLUMN burst integer,
    ADD COLUMN group_concurrency integer,
    ADD COLUMN group_rate float8,
    ADD COLUMN group_burst integer,
    -- Whether every task of it has to be admitted, also one without a group key.
    ADD COLUMN limited boolean NOT NULL
        GENERATED ALWAYS AS (concurrency IS NOT NULL OR rate IS NOT NULL) STORED;

-- The gate of a queue (not of a branch): what is admitted goes through it one admission after the other.
CREATE TABLE mainspring.gates (
    queue text COLLATE "C" PRIMARY KEY,
    -- When it is worth looking at; NULL: nothing is held.
    ready_at timestamptz,
    -- The token bucket: the free tokens at that time, and how many admitted tasks waited then, which
    -- have theirs already. Tokens and those together never exceed the burst.
    tokens float8,
    waiting integer NOT NULL DEFAULT 0,
    refilled_at timestamptz
) WITH (fillfactor = 50);

CREATE TABLE mainspring.groups (
    queue text COLLATE "C" NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    -- Limits of this group in place of those of every group of the queue.
    own_limits boolean NOT NULL DEFAULT false,
    concurrency integer,
    rate float8,
    burst integer,
    -- How many starts it had, counted from those of the others when it came: the lowest is next.
    turn bigint NOT NULL DEFAULT 0,
    ready_at timestamptz,
    tokens float8,
    waiting integer NOT NULL DEFAULT 0,
    refilled_at timestamptz,
    PRIMARY KEY (queue, group_key)
) WITH (fillfactor = 50);

CREATE INDEX groups_by_turn ON mainspring.groups (queue, turn) WHERE ready_at IS NOT NULL;
