-- Which scheduler plans for which partition, and under which epoch.

-- The partition that an id carries, as `domain.ids.partition_of` has it.
CREATE FUNCTION mainspring.partition_of(id uuid) RETURNS integer
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (get_byte(uuid_send(id), 14) * 256 + get_byte(uuid_send(id), 15)) % 64;

-- The epoch rises with each owner, and a scheduler writes only under the one it was given.
CREATE TABLE mainspring.partitions (
    partition smallint PRIMARY KEY,
    epoch bigint NOT NULL DEFAULT 0,
    -- NULL: nobody, since the last owner gave it back.
    owner text COLLATE "C",
    since timestamptz
) WITH (fillfactor = 50);

INSERT INTO mainspring.partitions (partition) SELECT generate_series(0, 63);

-- Schedulers that are alive, where PostgreSQL and not etcd coordinates them.
CREATE TABLE mainspring.members (
    member text COLLATE "C" PRIMARY KEY,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- Which of them may own a partition. A key of a member that is not alive is free.
CREATE TABLE mainspring.partition_keys (
    partition smallint PRIMARY KEY,
    member text COLLATE "C" NOT NULL
) WITH (fillfactor = 50);
