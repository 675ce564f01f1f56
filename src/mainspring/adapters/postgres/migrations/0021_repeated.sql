-- Stores a batch, as before. A repeated call whose task ends while it looks for it is answered like any
-- other that is repeated; it was refused.
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
    FOR round IN 1 .. 100 LOOP
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
            IF round = 100 THEN
                RAISE;
            END IF;
            -- What was there may have ended since: then it is found below.
            stored := ARRAY(SELECT t.id FROM mainspring.tasks t WHERE t.id = ANY (ids));
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
            -- Only what this call made: another may be replaying the one that was found.
            DELETE FROM mainspring.tasks t WHERE t.id = ANY (found) AND t.id <> ALL (stored);
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
