-- name: submit
-- Everything that storing tasks takes is in the database function, so that every way to submit
-- takes the same one. Returns what did not become a new task.
SELECT place, id, conflict
FROM mainspring.submit_batch_v1(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: submit_recorded
-- The same for tasks that come through an API, with the records of the audit in the same
-- transaction: no task without its record, and no second wait for the disk.
-- $17 for each task the place of its record or NULL, then by that place: $18 actors, $19 namespaces,
-- $20 actions, $21 addresses, $22 request ids.
WITH stored AS MATERIALIZED (
    SELECT place, id, conflict
    FROM mainspring.submit_batch_v1(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
), {{recorded}}
SELECT place, id, conflict FROM stored;

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
        FROM unnest($1::uuid[], $17::integer[]) WITH ORDINALITY AS g (id, part, place)
        LEFT JOIN stored s ON s.place = g.place
        WHERE s.conflict IS NOT TRUE
        GROUP BY g.part
    ) t
    JOIN unnest($18::text[], $19::text[], $20::text[], $21::text[], $22::text[])
        WITH ORDINALITY AS r (actor, namespace, action, address, request_id, part)
        ON r.part = t.part
)
