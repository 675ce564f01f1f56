-- Statements of a process that adds shards, among which the limits of queues are divided anew.

-- name: parts_of_limits
-- What one shard has of the limits of queues.
SELECT q.name, q.concurrency, q.rate, q.burst FROM mainspring.queues q WHERE q.limited;

-- name: forget_wholes
DELETE FROM mainspring.divided_limits;

-- name: keep_wholes
-- $1 queues, $2 their concurrency, $3 rate, $4 burst.
INSERT INTO mainspring.divided_limits (queue, concurrency, rate, burst)
SELECT * FROM unnest($1::text[], $2::integer[], $3::float8[], $4::integer[]);

-- name: wholes
SELECT d.queue, d.concurrency, d.rate, d.burst FROM mainspring.divided_limits d ORDER BY d.queue;

-- name: set_parts
-- Whoever admits next looks anew at what was held for the limits of before.
-- $1 queues, $2 their concurrency, $3 rate, $4 burst.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::integer[], $3::float8[], $4::integer[])
        AS n (name, concurrency, rate, burst)
    ORDER BY n.name
), limited AS (
    INSERT INTO mainspring.queues (name, concurrency, rate, burst) SELECT * FROM given
    ON CONFLICT (name) DO UPDATE SET
        concurrency = excluded.concurrency, rate = excluded.rate, burst = excluded.burst
)
INSERT INTO mainspring.gates (queue, ready_at, changed)
SELECT n.name, clock_timestamp(), true FROM given n
ON CONFLICT (queue) DO UPDATE SET ready_at = excluded.ready_at, changed = true;

-- name: queues
-- What holds for a queue in every shard.
SELECT q.name, q.paused, q.group_concurrency, q.group_rate, q.group_burst
FROM mainspring.queues q ORDER BY q.name;

-- name: add_queues
-- $1 names, $2 whether they are paused, $3 concurrency, $4 rate and $5 burst of each group.
INSERT INTO mainspring.queues (name, paused, group_concurrency, group_rate, group_burst)
SELECT * FROM unnest($1::text[], $2::boolean[], $3::integer[], $4::float8[], $5::integer[])
ON CONFLICT DO NOTHING;

-- name: groups
SELECT g.queue, g.group_key, g.concurrency, g.rate, g.burst
FROM mainspring.groups g ORDER BY g.queue, g.group_key;

-- name: add_groups
-- $1 queues, $2 group keys, $3 their concurrency, $4 rate, $5 burst.
INSERT INTO mainspring.groups (queue, group_key, concurrency, rate, burst)
SELECT * FROM unnest($1::text[], $2::text[], $3::integer[], $4::float8[], $5::integer[])
ON CONFLICT DO NOTHING;
