-- name: add_key
-- The first key of a namespace sets it up, without quotas.
-- $1 id, $2 digest, $3 name, $4 namespace, $5 scopes, $6 queues or NULL, $7 expiry or NULL,
-- $8 certificate or NULL.
WITH namespace AS (
    INSERT INTO mainspring.namespaces (name) VALUES ($4) ON CONFLICT DO NOTHING
)
INSERT INTO mainspring.api_keys (key_id, digest, name, namespace, scopes, queues, expires_at,
    certificate)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- fragment: key_columns
k.key_id, k.digest, k.name, k.namespace, k.scopes, k.queues, k.certificate, k.created_at,
    k.expires_at, k.revoked_at,
    k.revoked_at IS NULL AND coalesce(k.expires_at > clock_timestamp(), true) AS is_valid

-- name: find_certificates
-- Of each name the key that was not revoked, else the newest, so that who asks learns of it.
-- $1 names.
SELECT DISTINCT ON (k.certificate) {{key_columns}}
FROM mainspring.api_keys k
WHERE k.certificate = ANY ($1::text[])
ORDER BY k.certificate, k.revoked_at IS NULL DESC, k.created_at DESC;

-- name: find_keys
-- $1 ids or NULL.
SELECT {{key_columns}}
FROM mainspring.api_keys k
WHERE $1::text[] IS NULL OR k.key_id = ANY ($1::text[])
ORDER BY k.created_at, k.key_id;

-- name: revoke_key
-- Revoking twice keeps the first time.
UPDATE mainspring.api_keys k SET revoked_at = coalesce(k.revoked_at, clock_timestamp())
WHERE k.key_id = $1
RETURNING k.key_id;

-- name: namespaces
-- All of them: there are few.
SELECT n.name, n.pending_max, n.schedules_max, n.submit_rate
FROM mainspring.namespaces n ORDER BY n.name;

-- name: set_namespace
-- $1 name, $2 pending, $3 schedules, $4 rate.
INSERT INTO mainspring.namespaces (name, pending_max, schedules_max, submit_rate)
VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET
    pending_max = excluded.pending_max, schedules_max = excluded.schedules_max,
    submit_rate = excluded.submit_rate;

-- name: pending_count
-- Waiting tasks by their indexes, up to the bound, and what runs.
-- $1 queues, $2 bound.
SELECT least($2::bigint, (
    SELECT count(*) FROM (
        SELECT FROM mainspring.queues q
        CROSS JOIN generate_series(0, 10) AS p (priority)
        CROSS JOIN LATERAL (
            SELECT FROM mainspring.tasks t
            WHERE t.queue = q.name AND t.priority = p.priority
                AND t.status IN ('pending', 'retrying')
            LIMIT $2::bigint
        ) one
        WHERE q.base = ANY ($1::text[])
        LIMIT $2::bigint
    ) counted
) + (
    SELECT count(*) FROM (
        SELECT FROM mainspring.tasks t
        WHERE split_part(t.queue, '@', 1) = ANY ($1::text[]) AND t.status = 'coming'
        LIMIT $2::bigint
    ) coming
) + (
    SELECT count(*) FROM (
        SELECT FROM mainspring.tasks t
        WHERE split_part(t.queue, '@', 1) = ANY ($1::text[]) AND t.status = 'held'
        LIMIT $2::bigint
    ) held
) + (
    SELECT count(*) FROM mainspring.tasks t
    WHERE t.status = 'running' AND t.lease_expires_at > '-infinity'
        AND split_part(t.queue, '@', 1) = ANY ($1::text[])
))::bigint AS count;

-- name: record_audit
-- $1 actors, $2 namespaces, $3 actions, $4 subjects, $5 addresses, $6 request ids, $7 counts.
INSERT INTO mainspring.audit (actor, namespace, action, subject, address, request_id, count)
SELECT a.actor, a.namespace, a.action, a.subject, a.address, a.request_id, a.count
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::integer[])
    WITH ORDINALITY AS a (actor, namespace, action, subject, address, request_id, count, place)
ORDER BY a.place;

-- name: read_audit
-- Newest first. Ids are given out before their transactions end, so the newest may still lack one.
-- $1 how many, $2 namespace, $3 actor, $4 since, $5 before this id, $6 before this time;
-- all but the first may be NULL.
SELECT a.id, a.at, a.actor, a.namespace, a.action, a.subject, a.address, a.request_id, a.count,
    a.task_ids
FROM mainspring.audit a
WHERE ($2::text IS NULL OR a.namespace = $2) AND ($3::text IS NULL OR a.actor = $3)
    AND ($4::timestamptz IS NULL OR a.at >= $4) AND ($5::bigint IS NULL OR a.id < $5)
    AND ($6::timestamptz IS NULL OR a.at < $6)
ORDER BY a.id DESC LIMIT $1;
