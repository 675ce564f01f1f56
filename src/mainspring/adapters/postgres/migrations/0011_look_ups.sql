-- The functions that run in a caller's own session, where plans are kept as well: what they look up by
-- a key can only be looked up, however empty the tables were when they were planned. What is meant is
-- told in sql/fragments.sql; the settings of our own sessions do not hold in those of others.

-- Stores a batch, as before, and returns only what did not become a new task.
CREATE OR REPLACE FUNCTION mainspring.submit_batch_v1(
    ids uuid[],
    task_types text[],
    payloads text[],
    queues text[],
    priorities smallint[],
    scheduled_ats timestamptz[],
    delays float8[],
    timeouts float8[],
    retries integer[],
    backoff_kinds text[],
    backoff_bases float8[],
    backoff_multipliers float8[],
    backoff_maxima float8[],
    keys text[],
    fingerprints text[],
    at timestamptz DEFAULT NULL
) RETURNS TABLE (place integer, id uuid, conflict boolean)
LANGUAGE plpgsql
-- A plan made for the very arrays looks cheaper than one for any, so that each call would plan
-- anew: twice the cost of the whole call for a single task.
SET plan_cache_mode = 'force_generic_plan'
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    this_instant timestamptz := coalesce(at, clock_timestamp());
    low uuid;
    high uuid;
    stored uuid[] := '{}';
    found uuid[];
BEGIN
    IF queues IS NOT NULL THEN
        INSERT INTO mainspring.queues (name)
        SELECT DISTINCT given.queue FROM unnest(queues) AS given (queue)
        WHERE given.queue IS NOT NULL
            AND NOT EXISTS (SELECT FROM mainspring.queues q WHERE q.name = given.queue)
        ORDER BY given.queue
        ON CONFLICT DO NOTHING;
    END IF;
    IF (queues IS NULL OR array_position(queues, NULL) IS NOT NULL)
        AND NOT EXISTS (SELECT FROM mainspring.queues q WHERE q.name = 'default')
    THEN
        INSERT INTO mainspring.queues (name) VALUES ('default') ON CONFLICT DO NOTHING;
    END IF;
    IF keys IS NOT NULL THEN
        -- In the order of the keys, so that two batches never wait for each other in a circle.
        -- A key that another transaction holds is waited for: it commits, or the key is ours.
        INSERT INTO mainspring.idempotency (key, task_id, fingerprint, created_at)
        SELECT DISTINCT ON (given.key) given.key, given.id, given.fingerprint, this_instant
        FROM unnest(keys, ids, fingerprints) WITH ORDINALITY AS given (key, id, fingerprint, place)
        WHERE given.key IS NOT NULL
        ORDER BY given.key, given.place
        ON CONFLICT DO NOTHING;
        -- A new statement, so that what was waited for is seen.
        RETURN QUERY
        SELECT given.place::integer, known.task_id, known.fingerprint IS DISTINCT FROM given.fingerprint
        FROM unnest(keys, ids, fingerprints) WITH ORDINALITY AS given (key, id, fingerprint, place)
        JOIN mainspring.idempotency known ON known.key = ANY (ARRAY[given.key])
        WHERE known.task_id <> given.id;
    END IF;

    -- A plain insertion spares nearly every call the price of being ready for ids that are stored
    -- already; they are when a call is repeated because its answer was lost.
    LOOP
        BEGIN
            INSERT INTO mainspring.tasks (
                id, task_type, payload, queue, priority, scheduled_at, created_at,
                timeout_seconds, max_retries, backoff_kind, backoff, key)
            SELECT
                given.id, given.task_type, coalesce(given.payload, '{}')::json,
                coalesce(given.queue, 'default'), coalesce(given.priority, 5),
                greatest(
                    this_instant,
                    coalesce(
                        given.scheduled_at,
                        this_instant + make_interval(secs => coalesce(given.delay, 0)))),
                this_instant, coalesce(given.timeout, 300), coalesce(given.retries, 3),
                coalesce(given.backoff_kind, 'exponential'),
                CASE WHEN given.base IS NOT NULL
                    THEN ARRAY[given.base, given.multiplier, given.maximum] END,
                given.key
            FROM unnest(
                ids, task_types, payloads, queues, priorities, scheduled_ats, delays, timeouts,
                retries, backoff_kinds, backoff_bases, backoff_multipliers, backoff_maxima, keys)
                AS given (
                    id, task_type, payload, queue, priority, scheduled_at, delay, timeout,
                    retries, backoff_kind, base, multiplier, maximum, key)
            WHERE given.id <> ALL (stored) AND (given.key IS NULL OR EXISTS (
                SELECT FROM mainspring.idempotency known
                WHERE known.key = given.key AND known.task_id = given.id OFFSET 0));
            EXIT;
        EXCEPTION WHEN unique_violation THEN
            found := ARRAY(SELECT t.id FROM mainspring.tasks t WHERE t.id = ANY (ids));
            IF cardinality(found) = cardinality(stored) THEN
                RAISE;
            END IF;
            stored := found;
        END;
    END LOOP;

    -- The repeated call may also come after its tasks ran. The look for that follows the insertion,
    -- which has waited for whoever was moving one of them. One probe for the span of the batch's
    -- ids is enough nearly always; ordered, so that no plan can walk the table instead.
    low := (SELECT given.id FROM unnest(ids) AS given (id) ORDER BY given.id LIMIT 1);
    high := (SELECT given.id FROM unnest(ids) AS given (id) ORDER BY given.id DESC LIMIT 1);
    IF (SELECT h.id FROM mainspring.task_history h WHERE h.id BETWEEN low AND high
            ORDER BY h.id LIMIT 1) IS NOT NULL
        OR (SELECT d.id FROM mainspring.dead_letters d WHERE d.id BETWEEN low AND high
            ORDER BY d.id LIMIT 1) IS NOT NULL
    THEN
        found := ARRAY(
            SELECT h.id FROM unnest(ids) AS given (id)
            CROSS JOIN LATERAL (
                SELECT t.id FROM mainspring.task_history t WHERE t.id = given.id LIMIT 1) h
            UNION ALL
            SELECT d.id FROM unnest(ids) AS given (id)
            CROSS JOIN LATERAL (
                SELECT t.id FROM mainspring.dead_letters t WHERE t.id = given.id LIMIT 1) d);
        IF found <> '{}' THEN
            DELETE FROM mainspring.tasks t WHERE t.id = ANY (found);
            stored := stored || found;
        END IF;
    END IF;
    IF stored <> '{}' THEN
        RETURN QUERY
        SELECT given.place::integer, given.id, false
        FROM unnest(ids) WITH ORDINALITY AS given (id, place)
        WHERE given.id = ANY (stored);
    END IF;
END
$$;

-- Completes a running task in the caller's own transaction, as before. False: the lease is lost, and
-- the caller has to roll back.
-- transition: complete
CREATE OR REPLACE FUNCTION mainspring.complete_v1(
    task_id uuid, token bigint, result text, at timestamptz DEFAULT NULL
) RETURNS boolean
LANGUAGE sql
SET enable_seqscan = off AS $$
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
        DELETE FROM mainspring.webhooks w USING ended e WHERE w.task_id = ANY (ARRAY[e.id])
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
