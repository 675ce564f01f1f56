-- Statements of a process that moves partitions. Words in double brackets are filled in with names
-- from the catalog, so that whatever columns a table has are moved.

-- name: worked_on
-- Ticks that schedulers look at wherever they are, so they must be in one place.
t.outcome = 'task' AND t.ended_at IS NULL

-- name: of_live_tasks
-- Keys that are remembered in any case.
t.key IN (
    SELECT k.key FROM mainspring.tasks k
    WHERE k.key IS NOT NULL AND mainspring.partition_of(k.id) = ANY ($1))

-- name: stays
-- A row that is not just leaving.
mainspring.partition_of(t.id) <> ALL (
    ARRAY(SELECT unnest(m.moving)::integer FROM mainspring.shard_map m))

-- name: take_lock
-- One process moves partitions of an installation; the lock ends with its connection.
SELECT pg_try_advisory_lock(1835101546) AS taken;

-- name: read_move
-- The move that was begun in a shard, if any.
SELECT m.id, m.source, m.target, m.partitions FROM mainspring.moves m;

-- name: begin_move
-- Begins a move in a shard, or takes it over. No row: there is another one.
-- $1 id, $2 runner, $3 source, $4 target, $5 partitions.
INSERT INTO mainspring.moves AS m (id, runner, source, target, partitions)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (single) DO UPDATE SET runner = excluded.runner WHERE m.id = excluded.id
RETURNING m.places;

-- name: take_move
-- Takes a move over. No row: it has ended.
-- $1 id, $2 runner.
UPDATE mainspring.moves m SET runner = $2 WHERE m.id = $1 RETURNING m.places;

-- name: hold_move
-- Before every change: the move is still that of this process, until the change is committed.
-- $1 id, $2 runner.
SELECT m.places, set_config('mainspring.mover', 'on', true) FROM mainspring.moves m
WHERE m.id = $1 AND m.runner = $2 FOR UPDATE;

-- name: note_places
-- How far the tables are copied, stored with what was copied.
-- $1 places.
UPDATE mainspring.moves m SET places = $1::text::json;

-- name: end_move
-- $1 id.
DELETE FROM mainspring.moves m WHERE m.id = $1;

-- name: short_locks
-- Whoever waits for a lock on a table holds up all who come after, so it is not waited for long; nor is
-- it held for long by a process that stands still.
SET LOCAL lock_timeout = '300ms';
SET LOCAL idle_in_transaction_session_timeout = '4s';

-- name: bound_idling
-- How long this transaction may stand still. $1 milliseconds.
SELECT set_config('idle_in_transaction_session_timeout', least($1::integer, 20000)::text, true);

-- name: guard
-- $1 partitions.
SELECT mainspring.guard_partitions_v1($1);

-- name: has_guard
SELECT EXISTS (
    SELECT FROM pg_trigger t
    WHERE t.tgrelid = 'mainspring.tasks'::regclass AND t.tgname = 'moved_write_is_refused') AS has;

-- name: note_changes
-- $1 partitions.
SELECT mainspring.note_changes_v1($1);

-- name: mark_moving
-- $1 partitions, $2 for how many seconds at most.
UPDATE mainspring.shard_map m SET moving = $1, refused_since = clock_timestamp(),
    refused_until = clock_timestamp() + make_interval(secs => $2);

-- name: mark_settled
UPDATE mainspring.shard_map m SET moving = '{}', refused_since = NULL, refused_until = NULL;

-- name: read_refusal
-- Who moves them lets go of them at the given time, if it can; it is given some more.
SELECT coalesce(extract(epoch FROM clock_timestamp() - m.refused_since), 0)::float8 AS seconds,
    coalesce(clock_timestamp() > m.refused_until + interval '2 seconds', false) AS is_overdue
FROM mainspring.shard_map m WHERE m.moving <> '{}';

-- name: is_attended
-- Whether a process holds the lock under which partitions are moved.
SELECT EXISTS (
    SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = 1835101546 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
) AS is_attended;

-- name: tables
-- The tables whose rows belong to partitions: live ones are copied at the end, long ones before.
SELECT t.name, t.id, t.kept,
    (SELECT array_agg(a.attname::text ORDER BY place.n)
        FROM pg_index i
        CROSS JOIN LATERAL unnest(i.indkey::smallint[]) WITH ORDINALITY AS place (number, n)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = place.number
        WHERE i.indrelid = ('mainspring.' || t.name)::regclass AND i.indisprimary) AS key
FROM mainspring.partitioned_tables_v1() t
ORDER BY t.kept, t.name;

-- name: columns
-- What can be written of a table. Queues have columns that follow from others.
-- $1 table.
SELECT a.attname::text AS name, format_type(a.atttypid, a.atttypmod) AS type
FROM pg_attribute a
WHERE a.attrelid = ('mainspring.' || $1)::regclass AND a.attnum > 0 AND NOT a.attisdropped
    AND a.attgenerated = ''
ORDER BY a.attnum;

-- name: rows
-- Some rows of partitions, in the order of the key, from a place on.
-- $1 partitions, $2 limit, then the values of the place.
SELECT [[columns]] FROM mainspring.[[table]] t
WHERE mainspring.partition_of(t.[[id]]) = ANY ($1) AND [[which]] AND [[after]]
ORDER BY [[key]] LIMIT $2

-- name: noted_rows
-- What is there now of the rows that were noted. $1 and on: the columns of their keys.
SELECT [[columns]] FROM mainspring.[[table]] t
WHERE ([[key]]) IN (SELECT * FROM unnest([[arrays]])) AND [[which]]
ORDER BY [[key]]

-- name: all_rows
SELECT [[columns]] FROM mainspring.[[table]] t ORDER BY [[key]]

-- name: digest
-- What rows come to, whichever server adds them up.
SELECT count(*) AS count,
    md5(coalesce(string_agg(md5(r::text), '' ORDER BY [[key]]), '')) AS digest
FROM ([[rows]]) r

-- name: amount
-- How many rows of partitions there are, and how many bytes. $1 partitions.
SELECT count(*) AS count, coalesce(sum(pg_column_size(t.*)), 0)::bigint AS bytes
FROM mainspring.[[table]] t WHERE mainspring.partition_of(t.[[id]]) = ANY ($1) AND [[which]]

-- name: make_landing
-- Where rows land before they replace what is there.
CREATE TEMPORARY TABLE IF NOT EXISTS moving_[[table]] ON COMMIT DELETE ROWS
AS SELECT [[columns]] FROM mainspring.[[table]] t WITH NO DATA

-- name: landed
-- The rows of the table that have landed, as they are stored.
SELECT [[columns]] FROM mainspring.[[table]] t
JOIN moving_[[table]] USING ([[key]])

-- name: last_landed
SELECT [[key]] FROM moving_[[table]] t ORDER BY [[down]] LIMIT 1

-- name: clear_landed
DELETE FROM mainspring.[[table]] t USING moving_[[table]] n WHERE [[same]]

-- name: clear_noted
-- $1 and on: the columns of the keys.
DELETE FROM mainspring.[[table]] t WHERE ([[key]]) IN (SELECT * FROM unnest([[arrays]]))

-- name: store_landed
INSERT INTO mainspring.[[table]] ([[columns]]) SELECT [[columns]] FROM moving_[[table]] t

-- name: empty_landing
TRUNCATE moving_[[table]]

-- name: read_changes
-- $1 limit, $2 number behind which to begin.
SELECT c.number, c.kind, c.id, c.at, c.key FROM mainspring.move_changes c
WHERE c.number > $2 ORDER BY c.number LIMIT $1;

-- name: forget_changes
-- $1 numbers.
DELETE FROM mainspring.move_changes c WHERE c.number = ANY ($1::bigint[]);

-- name: forget_all_changes
DELETE FROM mainspring.move_changes;

-- name: buckets
-- The token buckets of the groups whose tasks are in partitions. That of tasks without a group key
-- belongs to the shard.
-- $1 partitions.
SELECT b.queue, b.group_key, b.tokens, b.waiting, b.refilled_at, b.full_at
FROM mainspring.buckets b
WHERE b.group_key <> '' AND mainspring.partition_of_group_v1(b.group_key) = ANY ($1)
ORDER BY b.queue, b.group_key;

-- name: open_gates
-- Locks the gates of everything that comes, before their lines and buckets, and lets them be looked at.
-- $1 partitions, $2 queues of the buckets that come.
INSERT INTO mainspring.gates (queue, ready_at, changed)
SELECT f.queue, clock_timestamp(), true
FROM (
    SELECT split_part(t.queue, '@', 1) COLLATE "C" AS queue FROM mainspring.tasks t
    WHERE mainspring.partition_of(t.id) = ANY ($1) AND t.group_key IS NOT NULL
    UNION
    SELECT unnest($2::text[]) COLLATE "C"
) f
ORDER BY f.queue
ON CONFLICT (queue) DO UPDATE SET ready_at = excluded.ready_at, changed = true;

-- name: carry_buckets
-- $1 queues, $2 group keys, $3 tokens, $4 how many waited, $5 when, $6 from when on they are full.
INSERT INTO mainspring.buckets (queue, group_key, tokens, waiting, refilled_at, full_at)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::float8[], $4::integer[], $5::timestamptz[], $6::timestamptz[])
ON CONFLICT (queue, group_key) DO UPDATE SET tokens = excluded.tokens, waiting = excluded.waiting,
    refilled_at = excluded.refilled_at, full_at = excluded.full_at;

-- name: line_up
-- What was held in the source has no line here, so it comes anew. Where a queue has a limit of its own,
-- so does what was admitted: it was under the share of the source.
-- $1 partitions.
UPDATE mainspring.tasks t SET status = 'coming'
WHERE mainspring.partition_of(t.id) = ANY ($1) AND (
    t.status = 'held' OR (
        t.group_key IS NOT NULL AND t.status IN ('pending', 'retrying') AND EXISTS (
            SELECT FROM mainspring.queues q
            WHERE q.name = split_part(t.queue, '@', 1) AND q.limited)));

-- name: epochs
-- $1 partitions.
SELECT f.partition, f.epoch FROM mainspring.partitions f WHERE f.partition = ANY ($1);

-- name: drop_owners
-- $1 partitions.
UPDATE mainspring.partitions f SET epoch = f.epoch + 1, owner = NULL, since = clock_timestamp()
WHERE f.partition = ANY ($1);

-- name: raise_epochs
-- Above every epoch that was ever given out for them, in either shard.
-- $1 partitions, $2 their epochs in the source.
UPDATE mainspring.partitions f SET epoch = greatest(f.epoch, s.epoch) + 1, owner = NULL,
    since = clock_timestamp()
FROM unnest($1::smallint[], $2::bigint[]) AS s (partition, epoch)
WHERE f.partition = s.partition;

-- name: lend_places
-- What runs goes on in the target and is counted there; here it takes its place of the queue along.
-- $1 partitions, $2 target.
INSERT INTO mainspring.lent_places AS p (queue, shard, count)
SELECT q.name, $2, count(*)
FROM mainspring.tasks t
JOIN mainspring.queues q ON q.name = split_part(t.queue, '@', 1)
WHERE mainspring.partition_of(t.id) = ANY ($1) AND t.status = 'running' AND q.concurrency IS NOT NULL
GROUP BY q.name
ON CONFLICT (queue, shard) DO UPDATE SET count = p.count + excluded.count,
    changed_at = clock_timestamp();

-- name: lent_places
SELECT p.queue, p.shard, p.count, p.changed_at FROM mainspring.lent_places p;

-- name: places_over
-- How much more of queues is in use in a shard than its share of their limits, what it has lent included.
-- While it is more nothing is admitted, so it only becomes less, but by another move.
-- $1 queues.
SELECT q.name AS queue, greatest(0, (
        SELECT count(*) FROM mainspring.tasks t
        WHERE split_part(t.queue, '@', 1) = q.name AND t.group_key IS NOT NULL
            AND t.status IN ('pending', 'retrying', 'running')
    ) + (
        SELECT coalesce(sum(p.count), 0) FROM mainspring.lent_places p WHERE p.queue = q.name
    ) - q.concurrency)::integer AS count
FROM mainspring.queues q
WHERE q.name = ANY ($1) AND q.concurrency IS NOT NULL;

-- name: take_places_back
-- Places that nobody has changed meanwhile. $1 queue, $2 shard, $3 when changed, $4 how many are still lent.
WITH returned AS (
    DELETE FROM mainspring.lent_places p
    WHERE p.queue = $1 AND p.shard = $2 AND p.changed_at = $3 AND $4 = 0
)
UPDATE mainspring.lent_places p SET count = $4, changed_at = clock_timestamp()
WHERE p.queue = $1 AND p.shard = $2 AND p.changed_at = $3 AND $4 > 0;

-- name: delete_rows
-- Some rows of partitions, from a place on; returns the key of the last one.
-- $1 partitions, $2 limit, then the values of the place.
WITH gone AS (
    SELECT [[key]] FROM mainspring.[[table]] t
    WHERE mainspring.partition_of(t.[[id]]) = ANY ($1) AND [[which]] AND [[after]]
    ORDER BY [[key]] LIMIT $2
), deleted AS (
    DELETE FROM mainspring.[[table]] t USING gone n WHERE [[same]]
)
SELECT count(*) OVER () AS count, [[key]] FROM gone t ORDER BY [[down]] LIMIT 1

-- name: months
-- The months that the history of a shard has.
SELECT to_date(right(c.relname, 7), 'YYYY_MM')::timestamp AT TIME ZONE 'UTC' AS month
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'mainspring.task_history'::regclass AND c.relname ~ '^task_history_\d{4}_\d\d$'
ORDER BY 1;

-- name: make_month
-- $1 any time in it.
SELECT mainspring.prepare_history_v1(0, $1);
