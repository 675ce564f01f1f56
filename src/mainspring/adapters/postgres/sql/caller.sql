-- name: submit_within
-- One argument of text, because drivers differ in how they send everything else.
-- $1 the batch as JSON.
SELECT place, id, conflict FROM mainspring.submit_json_v2($1);

-- name: complete_within
-- The casts take whatever type a driver sends.
-- $1 id, $2 token, $3 result.
SELECT mainspring.complete_v1(CAST($1 AS uuid), CAST($2 AS bigint), CAST($3 AS text));
