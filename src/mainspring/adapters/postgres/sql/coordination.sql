-- name: raise_epochs
-- Issues epochs. A partition for which a plan is just being stored is left for the next time, so
-- that one writer that stands still does not hold up the others.
-- $1 now or NULL, $2 partitions, $3 owner.
WITH taken AS MATERIALIZED (
    SELECT f.partition FROM mainspring.partitions f WHERE f.partition = ANY ($2::smallint[])
    ORDER BY f.partition
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE mainspring.partitions f SET
    epoch = f.epoch + 1, owner = $3, since = coalesce($1::timestamptz, clock_timestamp())
FROM taken t
WHERE f.partition = t.partition
RETURNING f.partition, f.epoch;

-- name: give_up_epochs
-- The epoch stays: the next one has to be higher.
-- $1 now or NULL, $2 partitions, $3 epochs.
WITH given AS MATERIALIZED (
    SELECT f.partition FROM mainspring.partitions f
    JOIN unnest($2::smallint[], $3::bigint[]) AS mine (partition, epoch)
        ON mine.partition = f.partition AND mine.epoch = f.epoch
    ORDER BY f.partition
    FOR NO KEY UPDATE OF f SKIP LOCKED
)
UPDATE mainspring.partitions f SET
    owner = NULL, since = coalesce($1::timestamptz, clock_timestamp())
FROM given g
WHERE f.partition = g.partition
RETURNING f.partition;

-- name: partition_states
-- All of them, in order.
SELECT f.partition, f.epoch, f.owner FROM mainspring.partitions f ORDER BY f.partition;

-- name: join_members
-- A session that is over never comes back, so anybody may clear it away.
-- $1 now or NULL, $2 member, $3 seconds.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
), dead AS (
    DELETE FROM mainspring.members m USING clock
    WHERE m.expires_at <= clock.now AND m.member <> $2
)
INSERT INTO mainspring.members AS m (member, expires_at)
SELECT $2, clock.now + make_interval(secs => $3) FROM clock
ON CONFLICT (member) DO UPDATE SET expires_at = excluded.expires_at
RETURNING m.member;

-- name: renew_member
-- $1 now or NULL, $2 member, $3 seconds.
WITH clock AS MATERIALIZED (
    SELECT coalesce($1::timestamptz, clock_timestamp()) AS now
)
UPDATE mainspring.members m SET expires_at = clock.now + make_interval(secs => $3)
FROM clock
WHERE m.member = $2 AND m.expires_at > clock.now
RETURNING m.member;

-- name: members_and_keys
-- The members without a partition, then the keys that they hold.
-- $1 now or NULL.
WITH alive AS MATERIALIZED (
    SELECT m.member FROM mainspring.members m
    WHERE m.expires_at > coalesce($1::timestamptz, clock_timestamp())
)
SELECT a.member, NULL::smallint AS partition FROM alive a
UNION ALL
SELECT k.member, k.partition FROM mainspring.partition_keys k JOIN alive a ON a.member = k.member;

-- name: acquire_keys
-- Keys that nobody holds who is alive. Two who do this at once: the second one finds the first.
-- $1 now or NULL, $2 member, $3 partitions.
WITH alive AS MATERIALIZED (
    SELECT m.member FROM mainspring.members m
    WHERE m.expires_at > coalesce($1::timestamptz, clock_timestamp())
), wanted AS MATERIALIZED (
    SELECT w.partition FROM unnest($3::smallint[]) AS w (partition)
    WHERE EXISTS (SELECT FROM alive a WHERE a.member = $2)
    ORDER BY w.partition
)
INSERT INTO mainspring.partition_keys AS k (partition, member)
SELECT w.partition, $2 FROM wanted w
ON CONFLICT (partition) DO UPDATE SET member = excluded.member
WHERE k.member = excluded.member OR NOT EXISTS (SELECT FROM alive a WHERE a.member = k.member)
RETURNING k.partition;

-- name: release_keys
-- $1 member, $2 partitions.
DELETE FROM mainspring.partition_keys k
WHERE k.member = $1 AND k.partition = ANY ($2::smallint[])
RETURNING k.partition;

-- name: leave_members
-- $1 member.
WITH keys AS (
    DELETE FROM mainspring.partition_keys k WHERE k.member = $1
)
DELETE FROM mainspring.members m WHERE m.member = $1
RETURNING m.member;

-- name: forget_members
-- Their keys are free without them.
DELETE FROM mainspring.members RETURNING member;
