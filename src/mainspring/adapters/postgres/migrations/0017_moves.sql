-- Partitions move from one shard to another while everything runs (docs/guides/cluster.md).

ALTER TABLE mainspring.shard_map
    -- How many shards there are, those included that keep no partition yet.
    ADD COLUMN shards smallint,
    -- The partitions that are just leaving this shard, so that nothing of them is written here.
    ADD COLUMN moving smallint[] NOT NULL DEFAULT '{}',
    -- Shards may still have the version of the map before this one.
    ADD COLUMN unsettled boolean NOT NULL DEFAULT false;
UPDATE mainspring.shard_map m
SET shards = (SELECT max(given.owner) + 1 FROM unnest(m.owners) AS given (owner));
ALTER TABLE mainspring.shard_map ALTER COLUMN shards SET NOT NULL;

-- What a process that moves partitions has to know when it goes on after its death; a row in the
-- source and one in the target, for as long as it takes.
CREATE TABLE mainspring.moves (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    id uuid NOT NULL,
    -- Who is at it. One that was thought dead finds another one here, and changes nothing more.
    runner uuid NOT NULL,
    source smallint NOT NULL,
    target smallint NOT NULL,
    partitions integer[] NOT NULL,
    -- In the target: how far each table was copied, as the last key.
    places json NOT NULL DEFAULT '{}',
    started_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What changed in the source behind the back of the copying.
CREATE TABLE mainspring.move_changes (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text COLLATE "C" NOT NULL,
    id uuid,
    at timestamptz,
    key text COLLATE "C"
);

-- As the owner of the tables, so that the role of the services need not know of these.
CREATE FUNCTION mainspring.note_change_v1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    changed record;
BEGIN
    IF TG_OP = 'DELETE' THEN
        changed := OLD;
    ELSE
        changed := NEW;
    END IF;
    IF TG_ARGV[0] = 'idempotency' THEN
        INSERT INTO mainspring.move_changes (kind, key) VALUES (TG_ARGV[0], changed.key);
    ELSIF TG_ARGV[0] = 'ticks' THEN
        INSERT INTO mainspring.move_changes (kind, id, at)
        VALUES (TG_ARGV[0], changed.schedule_id, changed.nominal_at);
    ELSE
        INSERT INTO mainspring.move_changes (kind, id) VALUES (TG_ARGV[0], changed.id);
    END IF;
    RETURN NULL;
END
$$;

-- What belongs to a partition that is leaving, or has left, is not written here any more. Claims and
-- admissions pass it over, and so does what only clears away. Nothing else makes of a task that waits one
-- that is held or admitted: to reschedule one leaves its status, or makes it 'coming'.
CREATE FUNCTION mainspring.refuse_moved_v1() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('mainspring.mover', true) = 'on' THEN
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        RETURN NEW;
    ELSIF TG_ARGV[0] = 'tasks' AND TG_OP = 'UPDATE' THEN
        IF OLD.status <> 'running' AND NEW.status <> OLD.status AND NEW.status <> 'coming' THEN
            RETURN NULL;
        ELSIF OLD.status = 'running' AND NEW.status = 'running' AND OLD.group_key IS NULL
            AND NEW.group_key = ''
        THEN
            -- In a queue that has a limit now, admissions count it to the group of all that have none.
            RETURN NULL;
        END IF;
    ELSIF TG_ARGV[0] NOT IN ('tasks', 'dead_letters', 'webhooks') AND TG_OP = 'DELETE' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'this belongs to a partition that moves to another shard, or has moved; it is there in a moment'
        USING ERRCODE = 'MS001';
END
$$;

-- The tables whose rows belong to partitions, with the id that says which.
CREATE FUNCTION mainspring.partitioned_tables_v1() RETURNS TABLE (name text, id text, kept text)
LANGUAGE sql IMMUTABLE AS $$
    VALUES ('tasks', 'id', 'live'), ('dead_letters', 'id', 'live'), ('webhooks', 'task_id', 'live'),
        ('schedules', 'id', 'live'), ('schedule_counts', 'schedule_id', 'live'),
        ('ticks', 'schedule_id', 'long'), ('idempotency', 'task_id', 'long'),
        ('task_history', 'id', 'long')
$$;

-- Refuses writes to these partitions, and to none besides. Whoever has written before has committed
-- when this is done, and whoever writes afterwards is refused.
CREATE FUNCTION mainspring.guard_partitions_v1(guarded integer[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part record;
    change text[];
BEGIN
    FOR part IN SELECT * FROM mainspring.partitioned_tables_v1() LOOP
        FOREACH change SLICE 1 IN ARRAY '{{write,INSERT OR UPDATE,NEW},{delete,DELETE,OLD}}'::text[] LOOP
            IF cardinality(guarded) > 0 THEN
                EXECUTE format(
                    'CREATE OR REPLACE TRIGGER moved_%s_is_refused BEFORE %s ON mainspring.%I '
                    'FOR EACH ROW WHEN (mainspring.partition_of(%s.%I) = ANY (%L::integer[])) '
                    'EXECUTE FUNCTION mainspring.refuse_moved_v1(%L)',
                    change[1], change[2], part.name, change[3], part.id, guarded, part.name);
            ELSE
                EXECUTE format(
                    'DROP TRIGGER IF EXISTS moved_%s_is_refused ON mainspring.%I', change[1], part.name);
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- Notes what changes in the long tables of these partitions; of none: stops that.
CREATE FUNCTION mainspring.note_changes_v1(noted integer[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    part record;
    change text[];
BEGIN
    FOR part IN SELECT * FROM mainspring.partitioned_tables_v1() t WHERE t.kept = 'long' LOOP
        FOREACH change SLICE 1 IN ARRAY '{{write,INSERT OR UPDATE,NEW},{delete,DELETE,OLD}}'::text[] LOOP
            IF cardinality(noted) > 0 THEN
                EXECUTE format(
                    'CREATE OR REPLACE TRIGGER moving_%s_is_noted AFTER %s ON mainspring.%I '
                    'FOR EACH ROW WHEN (mainspring.partition_of(%s.%I) = ANY (%L::integer[])) '
                    'EXECUTE FUNCTION mainspring.note_change_v1(%L)',
                    change[1], change[2], part.name, change[3], part.id, noted, part.name);
            ELSE
                EXECUTE format(
                    'DROP TRIGGER IF EXISTS moving_%s_is_noted ON mainspring.%I', change[1], part.name);
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- The partitions that this database keeps and that are not just leaving it.
CREATE OR REPLACE FUNCTION mainspring.own_partitions_v1() RETURNS SETOF integer
LANGUAGE sql STABLE AS $$
    SELECT given.place::integer - 1
    FROM mainspring.shard_map m, unnest(m.owners) WITH ORDINALITY AS given (owner, place)
    WHERE given.owner = m.shard AND given.place - 1 <> ALL (m.moving)
    ORDER BY given.place
$$;

-- Admissions look at these as claims do: what leaves is neither let in nor in anybody's way.
CREATE OR REPLACE FUNCTION mainspring.leaving_v1() RETURNS integer[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT m.moving::integer[] FROM mainspring.shard_map m), '{}')
$$;

-- In the last of the shards that are just added: the limits of queues as they are for all shards
-- together, until every shard has its new share.
CREATE TABLE mainspring.divided_limits (
    queue text COLLATE "C" PRIMARY KEY,
    concurrency integer,
    rate float8,
    burst integer
);

-- The last 16 bits of a new id, as before; partitions that are just leaving get no new ones.
CREATE OR REPLACE FUNCTION mainspring.id_tail_v1(key text, random_tail integer) RETURNS integer
LANGUAGE plpgsql STABLE AS $$
DECLARE
    own integer[];
    tail integer;
BEGIN
    IF key IS NOT NULL THEN
        tail := get_byte(sha256(convert_to(key, 'UTF8')), 0) * 256
            + get_byte(sha256(convert_to(key, 'UTF8')), 1);
    END IF;
    IF NOT EXISTS (SELECT FROM mainspring.shard_map) THEN
        RETURN coalesce(tail, random_tail);
    END IF;
    own := ARRAY(SELECT mainspring.own_partitions_v1());
    IF tail IS NULL AND cardinality(own) > 0 THEN
        RETURN random_tail / 64 * 64 + own[1 + random_tail % cardinality(own)];
    ELSIF tail IS NULL THEN
        RAISE EXCEPTION 'this shard keeps no partition, so no task can be submitted on a connection to it; use one to another shard'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF tail % 64 = ANY (ARRAY(SELECT unnest(m.moving) FROM mainspring.shard_map m)) THEN
        RAISE EXCEPTION 'the key % belongs to partition %, which is just moving to another shard; try again in a moment', quote_literal(left(key, 60)), tail % 64
            USING ERRCODE = 'MS001';
    ELSIF tail % 64 <> ALL (own) THEN
        RAISE EXCEPTION 'the key % belongs to partition %, which another shard keeps; submit on a connection to that one, or without a key', quote_literal(left(key, 60)), tail % 64
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN tail;
END
$$;
