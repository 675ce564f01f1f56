-- name: submit
-- Everything that storing tasks takes is in the database function, so that every way to submit
-- takes the same one. Returns what did not become a new task.
SELECT place, id, conflict
FROM mainspring.submit_batch_v1(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);
