-- Which shard of an installation a database is.

-- name: read_shard
-- One row, or none where the database is a whole installation.
SELECT m.installation, m.version, m.shard, m.owners FROM mainspring.shard_map m;

-- name: write_shard
-- A database becomes a shard once; who comes second changes nothing.
-- $1 installation, $2 version, $3 shard, $4 owners.
INSERT INTO mainspring.shard_map (installation, version, shard, owners)
VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING;

-- name: holds_anything
-- Whether there is anything whose partition somebody could look for elsewhere.
SELECT EXISTS (SELECT FROM mainspring.tasks) OR EXISTS (SELECT FROM mainspring.dead_letters)
    OR EXISTS (SELECT FROM mainspring.task_history) OR EXISTS (SELECT FROM mainspring.schedules)
    OR EXISTS (SELECT FROM mainspring.idempotency) AS holds;

-- name: own_partitions
-- Asked on a connection of the caller: which partitions may be written to there.
SELECT partition FROM mainspring.own_partitions_v1() AS given (partition);
