-- Shards: which of the databases of an installation this one is, and which partitions it keeps.

-- One row, or none where the database is a whole installation.
CREATE TABLE mainspring.shard_map (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    installation uuid NOT NULL,
    version integer NOT NULL,
    -- This one, counted from 0.
    shard smallint NOT NULL,
    -- The shard of each partition, from partition 0 on.
    owners smallint[] NOT NULL CHECK (cardinality(owners) = 64)
);

-- The partitions that this database keeps; none where it is a whole installation.
CREATE FUNCTION mainspring.own_partitions_v1() RETURNS SETOF integer
LANGUAGE sql STABLE AS $$
    SELECT given.place::integer - 1
    FROM mainspring.shard_map m, unnest(m.owners) WITH ORDINALITY AS given (owner, place)
    WHERE given.owner = m.shard
    ORDER BY given.place
$$;

-- The last 16 bits of a new id: those of the key, or the given random ones, moved into a partition
-- that this database keeps.
CREATE FUNCTION mainspring.id_tail_v1(key text, random_tail integer) RETURNS integer
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
    IF tail IS NULL THEN
        RETURN random_tail / 64 * 64 + own[1 + random_tail % cardinality(own)];
    ELSIF tail % 64 <> ALL (own) THEN
        RAISE EXCEPTION 'the key % belongs to partition %, which another shard keeps; submit on a connection to that one, or without a key', quote_literal(left(key, 60)), tail % 64
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN tail;
END
$$;

-- A UUIDv7: 48 bits of milliseconds, and random bits but for the version, the variant and the last
-- 16, which decide the partition and are the same for all tasks of a key.
CREATE OR REPLACE FUNCTION mainspring.new_task_id_v1(key text DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE AS $$
    SELECT (
        lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
        || '7' || substr(random_hex, 14, 3)
        || to_hex(8 + get_byte(decode(random_hex, 'hex'), 0) % 4) || substr(random_hex, 18, 11)
        || lpad(
            to_hex(mainspring.id_tail_v1(key, get_byte(decode(random_hex, 'hex'), 14) * 256
                + get_byte(decode(random_hex, 'hex'), 15))), 4, '0'))::uuid
    FROM replace(gen_random_uuid()::text, '-', '') AS random_hex
$$;
