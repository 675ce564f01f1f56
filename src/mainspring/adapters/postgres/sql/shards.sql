-- Which shard of an installation a database is.

-- name: read_shard
-- One row, or none where the database is a whole installation.
SELECT m.installation, m.version, m.shard, m.owners, m.shards, m.moving, m.unsettled,
    EXISTS (SELECT FROM mainspring.lent_places) AS lends
FROM mainspring.shard_map m;

-- name: write_shard
-- A database becomes a shard once; who comes second changes nothing.
-- $1 installation, $2 version, $3 shard, $4 owners, $5 how many shards there are, $6 whether others
-- may have another version.
INSERT INTO mainspring.shard_map (installation, version, shard, owners, shards, unsettled)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING;

-- name: change_map
-- The next version of the map, in a shard that has not got it yet; others may not have it either.
-- $1 version, $2 owners, $3 how many shards there are.
UPDATE mainspring.shard_map m SET version = $1, owners = $2, shards = $3, unsettled = true
WHERE m.version < $1;

-- name: settle_map
-- Every shard has this version of the map.
-- $1 version.
UPDATE mainspring.shard_map m SET unsettled = false WHERE m.version = $1 AND m.unsettled;

-- name: moves_anything
-- Whether partitions are just moving to this shard or away from it.
SELECT EXISTS (SELECT FROM mainspring.moves) AS moves;

-- name: holds_anything
-- Whether there is anything whose partition somebody could look for elsewhere.
SELECT EXISTS (SELECT FROM mainspring.tasks) OR EXISTS (SELECT FROM mainspring.dead_letters)
    OR EXISTS (SELECT FROM mainspring.task_history) OR EXISTS (SELECT FROM mainspring.schedules)
    OR EXISTS (SELECT FROM mainspring.idempotency) AS holds;

-- name: own_partitions
-- Asked on a connection of the caller: which partitions may be written to there.
SELECT partition FROM mainspring.own_partitions_v1() AS given (partition);
