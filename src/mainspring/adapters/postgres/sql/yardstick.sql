-- name: yardstick_make
-- A table like ours in what matters for its cost: a key, an index on what waits, a document.
CREATE TABLE IF NOT EXISTS mainspring.yardstick (
    id uuid PRIMARY KEY,
    due timestamptz NOT NULL,
    state text COLLATE "C" NOT NULL,
    document json NOT NULL
);

-- name: yardstick_index
-- What waits is found by its time, and leaves the index when it is changed.
CREATE INDEX IF NOT EXISTS yardstick_waiting ON mainspring.yardstick (due) WHERE state = 'waiting';

-- name: yardstick_insert
-- A batch goes in. $1 ids, $2 documents.
INSERT INTO mainspring.yardstick (id, due, state, document)
SELECT given.id, clock_timestamp(), 'waiting', given.document::json
FROM unnest($1::uuid[], $2::text[]) AS given (id, document);

-- name: yardstick_update
-- A batch is taken, as a claim does. $1 ids.
UPDATE mainspring.yardstick y SET state = 'running'
FROM unnest($1::uuid[]) AS given (id)
WHERE y.id = ANY (ARRAY[given.id])
RETURNING y.id, y.document;

-- name: yardstick_delete
-- A batch is done with. $1 ids.
DELETE FROM mainspring.yardstick y
USING unnest($1::uuid[]) AS given (id)
WHERE y.id = ANY (ARRAY[given.id]);

-- name: yardstick_drop
-- Nothing of it stays.
DROP TABLE IF EXISTS mainspring.yardstick;
