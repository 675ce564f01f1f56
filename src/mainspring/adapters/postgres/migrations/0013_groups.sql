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

-- A branch has a queue beside it, whose limits and gate are its own as well.
INSERT INTO mainspring.queues (name) SELECT DISTINCT q.base FROM mainspring.queues q
ON CONFLICT DO NOTHING;

CREATE FUNCTION mainspring.keep_base_v1() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    base_name text := split_part(NEW.name, '@', 1);
BEGIN
    IF NOT EXISTS (SELECT FROM mainspring.queues q WHERE q.name = base_name) THEN
        INSERT INTO mainspring.queues (name) VALUES (base_name) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER queues_have_their_base BEFORE INSERT ON mainspring.queues
    FOR EACH ROW WHEN (position('@' IN NEW.name) > 0)
    EXECUTE FUNCTION mainspring.keep_base_v1();

-- What people set for single groups in place of the limits of every group of the queue.
CREATE TABLE mainspring.groups (
    queue text COLLATE "C" NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    concurrency integer,
    rate float8,
    burst integer,
    PRIMARY KEY (queue, group_key)
);

-- The gate of a queue (not of a branch). Whoever admits tasks holds the lock of its row, and so of all
-- rows of its lines and buckets; whoever finds it locked passes on.
CREATE TABLE mainspring.gates (
    queue text COLLATE "C" PRIMARY KEY,
    -- When it is worth looking at; NULL: nothing is held.
    ready_at timestamptz,
    -- Limits were changed, so that every line is to be looked at anew.
    changed boolean NOT NULL DEFAULT false,
    -- For each priority, from 0 on, the turn that was served last: where a line begins that comes anew.
    turns bigint[] NOT NULL DEFAULT '{0,0,0,0,0,0,0,0,0,0,0}',
    -- Since when the queue has a limit of its own, as far as the gate knows.
    limited_at timestamptz,
    -- The token bucket of the queue, as those of groups.
    tokens float8,
    waiting integer NOT NULL DEFAULT 0,
    refilled_at timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The tasks of a group and a priority that are held stand in a line; lines are served by turns. There
-- is a row for as long as the line is not empty.
CREATE TABLE mainspring.lines (
    queue text COLLATE "C" NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    -- How many starts it had, counted from the turn that was served when it came: the lowest is next.
    turn bigint NOT NULL,
    -- When a limit may leave room again; NULL: it is to be looked at.
    until timestamptz,
    -- How many looks in a row found that too much of its group runs.
    looks smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (queue, group_key, priority)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX lines_by_turn ON mainspring.lines (queue, priority, turn) WHERE until IS NULL;
CREATE INDEX lines_by_time ON mainspring.lines (queue, until) WHERE until IS NOT NULL;

-- The token buckets of groups that have a rate: the tokens that were left at the last look, and how
-- many admitted tasks waited then, which have theirs already. Both together never exceed the burst.
CREATE TABLE mainspring.buckets (
    queue text COLLATE "C" NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    tokens float8 NOT NULL,
    waiting integer NOT NULL,
    refilled_at timestamptz NOT NULL,
    -- From when on a bucket that is not there would be as full.
    full_at timestamptz NOT NULL,
    PRIMARY KEY (queue, group_key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX buckets_by_age ON mainspring.buckets (queue, full_at) WHERE waiting = 0;
