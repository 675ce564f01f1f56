-- Webhooks: who is told of the end of a task. Tasks without one have no row here, and the statements
-- that end tasks look no further when the table is empty.

CREATE TABLE mainspring.webhooks (
    task_id uuid PRIMARY KEY,
    url text NOT NULL,
    events text[] COLLATE "C" NOT NULL,
    -- Name of the secret that signs the deliveries.
    sign text COLLATE "C",
    -- Where the deliveries wait.
    queue text COLLATE "C" NOT NULL
) WITH (
    -- Whether it is empty is asked by each statement that ends tasks, so what was deleted must go.
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- The id of a delivery, as `domain.webhooks.delivery_id` has it: the same whoever makes it, and in
-- the partition of the task that ended.
CREATE FUNCTION mainspring.delivery_id_v1(task_id uuid, token bigint, event text, at timestamptz)
RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT (
        lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0')
        || '7' || substr(digest, 1, 3) || '8' || substr(digest, 4, 3) || substr(digest, 7, 8)
        || right(task_id::text, 4))::uuid
    FROM encode(sha256(convert_to(task_id || '/' || token || '/' || event, 'UTF8')), 'hex')
        AS digest
$$;

-- The payload of a delivery, as `domain.webhooks.delivery_payload` has it.
CREATE FUNCTION mainspring.delivery_payload_v1(
    url text, sign text, event text, task_id uuid, task_type text, queue text,
    attempt_count integer, at timestamptz, error text, reason text
) RETURNS json
LANGUAGE sql STABLE AS $$
    SELECT json_build_object(
        'url', url, 'sign', sign,
        'body', json_build_object(
            'event', event, 'task_id', task_id, 'task_type', task_type,
            'queue', split_part(regexp_replace(queue, '^[^~]*~', ''), '@', 1),
            'attempt_count', attempt_count,
            'ended_at', to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'error', error, 'reason', reason))
$$;

-- The same function, which tells the webhook of the task, too. Completes a running task in the
-- caller's own transaction. False: the lease is lost, and the caller has to roll back.
-- transition: complete
CREATE OR REPLACE FUNCTION mainspring.complete_v1(
    task_id uuid, token bigint, result text, at timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE sql AS $$
    WITH ended AS (
        DELETE FROM mainspring.tasks t
        WHERE t.id = complete_v1.task_id AND t.status = 'running'
            AND t.fencing_token = complete_v1.token
        RETURNING t.*
    ), kept AS (
        INSERT INTO mainspring.task_history (
            id, scheduled_at, created_at, started_at, completed_at, fencing_token,
            timeout_seconds, attempt_count, crash_count, max_retries, priority, status, queue,
            task_type, worker_id, key, backoff_kind, backoff, payload, progress, result, attempts,
            schedule, nominal_at, previous_nominal_at)
        SELECT
            e.id, e.scheduled_at, e.created_at, e.started_at,
            coalesce(complete_v1.at, clock_timestamp()), e.fencing_token, e.timeout_seconds,
            e.attempt_count, e.crash_count, e.max_retries, e.priority, 'completed', e.queue,
            e.task_type, e.worker_id, e.key, e.backoff_kind, e.backoff, e.payload, e.progress,
            complete_v1.result::json, e.attempts, e.schedule, e.nominal_at, e.previous_nominal_at
        FROM ended e
        RETURNING id, completed_at
    ), unhooked AS (
        DELETE FROM mainspring.webhooks w USING ended e WHERE w.task_id = e.id
        RETURNING w.*
    ), delivered AS (
        INSERT INTO mainspring.tasks (
            id, scheduled_at, created_at, timeout_seconds, max_retries, priority, queue, task_type,
            backoff_kind, backoff, payload)
        SELECT mainspring.delivery_id_v1(e.id, e.fencing_token, 'completed', k.completed_at),
            k.completed_at, k.completed_at, 30, 11, 5, u.queue, 'mainspring.webhook',
            'exponential', '{10,3,3600}',
            mainspring.delivery_payload_v1(
                u.url, u.sign, 'completed', e.id, e.task_type, e.queue, e.attempt_count,
                k.completed_at, NULL, NULL)
        FROM unhooked u JOIN ended e ON e.id = u.task_id JOIN kept k ON k.id = e.id
        WHERE 'completed' = ANY (u.events)
    )
    SELECT EXISTS (SELECT FROM kept)
$$;
