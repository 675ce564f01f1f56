-- fragment: webhooks
-- Tells the webhooks of tasks that end, whose statement lists them as `endings`. A delivery is a
-- task like any other. Replaying a dead letter ends it again, so its webhook is kept till then.
-- When no task has a webhook the first condition is all that is looked at; else each is looked up by
-- key, whatever the planner thinks of joins.
hooked AS MATERIALIZED (
    SELECT e.id, e.fencing_token, e.task_type, e.queue, e.attempt_count, e.event, e.at, e.error,
        e.reason, w.url, w.sign, w.events, w.queue AS delivery_queue
    FROM endings e
    CROSS JOIN LATERAL (SELECT * FROM mainspring.webhooks k WHERE k.task_id = e.id LIMIT 1) w
    WHERE EXISTS (SELECT FROM mainspring.webhooks)
), unhooked AS (
    DELETE FROM mainspring.webhooks w
    WHERE w.task_id = ANY (ARRAY(SELECT h.id FROM hooked h WHERE h.event <> 'failed'))
), delivered AS (
    INSERT INTO mainspring.tasks (
        id, scheduled_at, created_at, timeout_seconds, max_retries, priority, queue, task_type,
        backoff_kind, backoff, payload)
    SELECT mainspring.delivery_id_v1(h.id, h.fencing_token, h.event, h.at), h.at, h.at, 30, 11, 5,
        h.delivery_queue, 'mainspring.webhook', 'exponential', '{10,3,3600}',
        mainspring.delivery_payload_v1(
            h.url, h.sign, h.event, h.id, h.task_type, h.queue, h.attempt_count, h.at, h.error,
            h.reason)
    FROM hooked h
    WHERE h.event = ANY (h.events)
)

-- name: submit_hooked
-- Tasks of which some have a webhook, with their records in the audit, if there are any: no task
-- without what belongs to it.
-- $19 to $24 as in submit_recorded, $25 the webhooks as JSON, with the place of their task.
WITH stored AS MATERIALIZED (
    {{stored}}
), {{recorded}}, given AS MATERIALIZED (
    SELECT * FROM json_to_recordset($25::text::json)
        AS w (place integer, task_id uuid, url text, events text[], sign text, queue text)
    WHERE NOT EXISTS (SELECT FROM stored s WHERE s.place = w.place)
), {{keep_webhooks}}
SELECT place, id, conflict FROM stored;

-- fragment: keep_webhooks
-- Stores the webhooks in `given`, and the queues in which their deliveries will wait.
lines AS (
    INSERT INTO mainspring.queues (name)
    SELECT DISTINCT g.queue FROM given g
    WHERE NOT EXISTS (SELECT FROM mainspring.queues q WHERE q.name = g.queue)
    ORDER BY g.queue
    ON CONFLICT DO NOTHING
), kept AS (
    INSERT INTO mainspring.webhooks (task_id, url, events, sign, queue)
    SELECT g.task_id, g.url, g.events, g.sign, g.queue FROM given g
    ON CONFLICT DO NOTHING
    RETURNING task_id
)

-- name: keep_webhooks_within
-- The webhooks of tasks that were submitted in the caller's own transaction.
-- $1 the webhooks as JSON.
WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(CAST($1 AS json))
        AS w (task_id uuid, url text, events text[], sign text, queue text)
), {{keep_webhooks}}
SELECT count(*) FROM kept;
