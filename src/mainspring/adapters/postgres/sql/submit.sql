-- name: submit_one
-- A task that was made for this very call: its id is in no table, so none is looked through, and a
-- plain insertion needs no subtransaction. No row comes back if the queue is not known yet.
-- $1 id, $2 type, $3 payload, $4 queue, $5 priority, $6 time to run, $7 delay, $8 timeout,
-- $9 retries, $10 kind and $11 numbers of the back-off, $12 now.
-- transition: submit
{{one}}
RETURNING 1;

-- name: submit_one_recorded
-- The same for a task that comes through an API, with its record in the audit: no task without its
-- record, and no second wait for the disk.
-- $13 actor, $14 namespace, $15 action, $16 address, $17 request id.
-- transition: submit
WITH stored AS (
    {{one}}
    RETURNING id
)
INSERT INTO mainspring.audit
    (actor, namespace, action, subject, address, request_id, count, task_ids)
SELECT $13, $14, $15, s.id::text, $16, $17, 1, ARRAY[s.id] FROM stored s
RETURNING 1;

-- name: submit_first
-- Many such tasks; none is stored if one of the queues, $15, is not known yet. The other arguments
-- are those of `submit_batch_v2` without keys, but that one type is enough where all have the same.
-- transition: submit
WITH {{first}}
SELECT count(*) FROM stored;

-- name: submit_first_recorded
-- The same with the records of the audit.
-- $16 for each task the place of its record or NULL, then by that place: $17 actors, $18 namespaces,
-- $19 actions, $20 addresses, $21 request ids.
-- transition: submit
WITH {{first}}, recorded AS (
    INSERT INTO mainspring.audit
        (actor, namespace, action, subject, address, request_id, count, task_ids)
    SELECT r.actor, r.namespace, r.action, t.ids[1]::text, r.address, r.request_id,
        cardinality(t.ids), t.ids
    FROM (
        SELECT g.part, array_agg(g.id ORDER BY g.place) AS ids
        FROM unnest($1::uuid[], $16::integer[]) WITH ORDINALITY AS g (id, part, place)
        GROUP BY g.part
    ) t
    JOIN unnest($17::text[], $18::text[], $19::text[], $20::text[], $21::text[])
        WITH ORDINALITY AS r (actor, namespace, action, address, request_id, part)
        ON r.part = t.part
    WHERE EXISTS (SELECT FROM stored)
)
SELECT count(*) FROM stored;

-- name: submit
-- Everything that storing tasks takes is in the database function, so that every way to submit
-- takes the same one. Returns what did not become a new task.
{{stored}};

-- name: submit_recorded
-- The same with the records of the audit in the same transaction, as above.
-- $19 for each task the place of its record or NULL, then by that place: $20 actors, $21 namespaces,
-- $22 actions, $23 addresses, $24 request ids.
WITH stored AS MATERIALIZED (
    {{stored}}
), {{recorded}}
SELECT place, id, conflict FROM stored;

-- fragment: stored
-- Whoever's open transaction holds a key or a new queue is not waited for as long as a statement may
-- take: other tasks may be in the same batch.
SELECT s.place, s.id, s.conflict
FROM (SELECT set_config('lock_timeout', '2s', true) AS bound OFFSET 0) patience
CROSS JOIN LATERAL mainspring.submit_batch_v2(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
    CASE WHEN patience.bound <> '' THEN $18::timestamptz END) s

-- fragment: recorded
-- One record for what one actor handed in from one address, with the id of each task: that of the
-- one stored before where its key was used, and none where nothing was stored.
recorded AS (
    INSERT INTO mainspring.audit
        (actor, namespace, action, subject, address, request_id, count, task_ids)
    SELECT r.actor, r.namespace, r.action, t.ids[1]::text, r.address, r.request_id,
        cardinality(t.ids), t.ids
    FROM (
        SELECT g.part, array_agg(coalesce(s.id, g.id) ORDER BY g.place) AS ids
        FROM unnest($1::uuid[], $19::integer[]) WITH ORDINALITY AS g (id, part, place)
        LEFT JOIN stored s ON s.place = g.place
        WHERE s.conflict IS NOT TRUE
        GROUP BY g.part
    ) t
    JOIN unnest($20::text[], $21::text[], $22::text[], $23::text[], $24::text[])
        WITH ORDINALITY AS r (actor, namespace, action, address, request_id, part)
        ON r.part = t.part
)

-- fragment: one
INSERT INTO mainspring.tasks (
    id, task_type, payload, queue, priority, scheduled_at, created_at, timeout_seconds,
    max_retries, backoff_kind, backoff)
SELECT
    $1, $2, $3::text::json, q.name, $5,
    greatest(
        coalesce($12::timestamptz, statement_timestamp()),
        coalesce(
            $6,
            coalesce($12, statement_timestamp()) + make_interval(secs => $7))),
    coalesce($12, statement_timestamp()), $8, $9, $10, $11
FROM mainspring.queues q
WHERE q.name = $4

-- fragment: first
stored AS (
    INSERT INTO mainspring.tasks (
        id, task_type, payload, queue, priority, scheduled_at, created_at, timeout_seconds,
        max_retries, backoff_kind, backoff)
    SELECT
        given.id, coalesce(given.task_type, ($2::text[])[1]), coalesce(given.payload, '{}')::json,
        coalesce(given.queue, 'default'), coalesce(given.priority, 5),
        greatest(
            coalesce($14::timestamptz, statement_timestamp()),
            coalesce(
                given.scheduled_at,
                coalesce($14, statement_timestamp())
                    + make_interval(secs => coalesce(given.delay, 0)))),
        coalesce($14, statement_timestamp()),
        coalesce(given.timeout, 300), coalesce(given.retries, 3),
        coalesce(given.backoff_kind, 'exponential'),
        CASE WHEN given.base IS NOT NULL
            THEN ARRAY[given.base, given.multiplier, given.maximum] END
    FROM unnest(
        $1::uuid[], $2::text[], $3::text[], $4::text[], $5::smallint[], $6::timestamptz[],
        $7::float8[], $8::float8[], $9::integer[], $10::text[], $11::float8[], $12::float8[],
        $13::float8[])
        AS given (
            id, task_type, payload, queue, priority, scheduled_at, delay, timeout, retries,
            backoff_kind, base, multiplier, maximum)
    WHERE (SELECT count(*) FROM mainspring.queues q WHERE q.name = ANY ($15::text[]))
        = cardinality($15)
    RETURNING 1
)
