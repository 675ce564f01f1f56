-- name: submit
-- Everything that storing tasks takes is in the database function, so that every way to submit
-- takes the same one. Returns what did not become a new task.
SELECT place, id, conflict
FROM mainspring.submit_batch_v1(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: submit_recorded
-- The same for tasks that come through an API, with the records of the audit in the same
-- transaction: no task without its record, and no second wait for the disk. A record of one task
-- names the one that was stored before under its key, and there is none where nothing was stored.
-- $17 places of single tasks or NULL, $18 actors, $19 namespaces, $20 actions, $21 first tasks,
-- $22 addresses, $23 request ids, $24 counts.
WITH stored AS MATERIALIZED (
    SELECT place, id, conflict
    FROM mainspring.submit_batch_v1(
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
), {{recorded}}
SELECT place, id, conflict FROM stored;

-- fragment: recorded
-- Writes the records of a batch into the audit.
recorded AS (
    INSERT INTO mainspring.audit (actor, namespace, action, subject, address, request_id, count)
    SELECT r.actor, r.namespace, r.action, coalesce(s.id, r.first)::text, r.address, r.request_id,
        r.count
    FROM unnest($17::integer[], $18::text[], $19::text[], $20::text[], $21::uuid[], $22::text[],
        $23::text[], $24::integer[])
        AS r (place, actor, namespace, action, first, address, request_id, count)
    LEFT JOIN stored s ON s.place = r.place
    WHERE s.conflict IS NOT TRUE
)
