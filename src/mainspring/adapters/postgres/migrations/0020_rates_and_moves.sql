-- Rates that are very low, and unique keys in partitions that move.

-- When the next token is there, a moment later rather than earlier. Of a token that takes longer than a
-- lifetime nobody needs the time, and with some rates it would be none that can be stored.
CREATE OR REPLACE FUNCTION mainspring.next_token_v1(instant timestamptz, rate float8, tokens float8)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE AS $$
    SELECT instant + make_interval(secs => least(1e9, greatest(0.005, (1 - tokens) / rate)))
        + interval '1 microsecond'
$$;

-- Stores a batch, as before, and returns only what did not become a new task. What it tells itself, to
-- begin again, has a code of its own: the guard of partitions that move has to be heard by the caller.
CREATE OR REPLACE FUNCTION mainspring.submit_batch_v2(
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
    group_keys text[],
    unique_keys text[],
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
    -- Whose key is that of another task; what this call made; what is stored already.
    refused uuid[] := '{}';
    made uuid[] := '{}';
    stored uuid[] := '{}';
    found uuid[];
    -- Places whose unique key a live task has, and that task.
    taken integer[] := '{}';
    twins uuid[] := '{}';
    is_settled boolean := false;
BEGIN
    IF keys IS NOT NULL THEN
        -- Keys that are old enough to be forgotten stay until this is over: what is found to be known
        -- is known to the end.
        PERFORM FROM unnest(keys) AS given (key)
        JOIN mainspring.idempotency known ON known.key = ANY (ARRAY[given.key])
        ORDER BY known.key
        FOR KEY SHARE OF known;
    END IF;
    -- Without the new keys the plain insertion of before is a third quicker.
    IF group_keys IS NULL AND unique_keys IS NULL THEN
        RETURN QUERY
        SELECT before.place, before.id, before.conflict
        FROM mainspring.submit_batch_v1(
            ids, task_types, payloads, queues, priorities, scheduled_ats, delays, timeouts,
            retries, backoff_kinds, backoff_bases, backoff_multipliers, backoff_maxima, keys,
            fingerprints, at) AS before;
        RETURN;
    END IF;
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
        refused := ARRAY(
            SELECT given.id
            FROM unnest(keys, ids) AS given (key, id)
            JOIN mainspring.idempotency known ON known.key = ANY (ARRAY[given.key])
            WHERE known.task_id <> given.id);
    END IF;
    low := (SELECT given.id FROM unnest(ids) AS given (id) ORDER BY given.id LIMIT 1);
    high := (SELECT given.id FROM unnest(ids) AS given (id) ORDER BY given.id DESC LIMIT 1);

    -- Once nearly always. Again when a task with one of the unique keys ended while we looked who it
    -- is, so that the key is free: then all of it again, as whoever holds later keys must not wait for
    -- an earlier one.
    FOR round IN 1 .. 100 LOOP
        BEGIN
            -- In the order of the unique keys, as above. Who holds one in another transaction is
            -- waited for; of two in this batch the first has it.
            WITH put AS (
                INSERT INTO mainspring.tasks (
                    id, task_type, payload, queue, priority, scheduled_at, created_at,
                    timeout_seconds, max_retries, backoff_kind, backoff, key, group_key, unique_key,
                    status)
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
                    given.key, given.group_key, given.unique_key,
                    CASE WHEN given.group_key IS NULL THEN 'pending' ELSE 'coming' END
                FROM unnest(
                    ids, task_types, payloads, queues, priorities, scheduled_ats, delays, timeouts,
                    retries, backoff_kinds, backoff_bases, backoff_multipliers, backoff_maxima, keys,
                    group_keys, unique_keys)
                    WITH ORDINALITY AS given (
                        id, task_type, payload, queue, priority, scheduled_at, delay, timeout,
                        retries, backoff_kind, base, multiplier, maximum, key, group_key, unique_key,
                        place)
                WHERE given.id <> ALL (refused) AND given.id <> ALL (stored)
                ORDER BY given.unique_key COLLATE "C", given.group_key COLLATE "C", given.place
                ON CONFLICT DO NOTHING
                RETURNING id
            )
            SELECT coalesce(array_agg(put.id), '{}') INTO made FROM put;

            -- A repeated call may also come after its tasks ran. The look for that follows the
            -- insertion, which has waited for whoever was moving one of them. One probe for the span of
            -- the batch's ids is enough nearly always; ordered, so that no plan can walk the table.
            found := '{}';
            IF (SELECT h.id FROM mainspring.task_history h WHERE h.id BETWEEN low AND high
                    ORDER BY h.id LIMIT 1) IS NOT NULL
                OR (SELECT d.id FROM mainspring.dead_letters d WHERE d.id BETWEEN low AND high
                    ORDER BY d.id LIMIT 1) IS NOT NULL
            THEN
                found := ARRAY(
                    SELECT h.id FROM unnest(ids) AS given (id)
                    CROSS JOIN LATERAL (
                        SELECT t.id FROM mainspring.task_history t WHERE t.id = given.id LIMIT 1) h
                    WHERE given.id <> ALL (stored)
                    UNION ALL
                    SELECT d.id FROM unnest(ids) AS given (id)
                    CROSS JOIN LATERAL (
                        SELECT t.id FROM mainspring.dead_letters t WHERE t.id = given.id LIMIT 1) d
                    WHERE given.id <> ALL (stored));
                IF found <> '{}' THEN
                    -- Only what this call made: another may be replaying the one that was found.
                    DELETE FROM mainspring.tasks t WHERE t.id = ANY (found) AND t.id = ANY (made);
                    made := ARRAY(SELECT m.id FROM unnest(made) AS m (id) WHERE m.id <> ALL (found));
                    stored := stored || found;
                END IF;
            END IF;

            IF cardinality(made) + cardinality(refused) < cardinality(ids) THEN
                stored := stored || ARRAY(
                    SELECT t.id FROM unnest(ids) AS given (id)
                    CROSS JOIN LATERAL (
                        SELECT live.id FROM mainspring.tasks live WHERE live.id = given.id LIMIT 1) t
                    WHERE given.id <> ALL (made) AND given.id <> ALL (stored));
                IF unique_keys IS NOT NULL THEN
                    SELECT coalesce(array_agg(given.place::integer), '{}'), coalesce(array_agg(t.id), '{}')
                    INTO taken, twins
                    FROM unnest(ids, group_keys, unique_keys)
                        WITH ORDINALITY AS given (id, group_key, unique_key, place)
                    CROSS JOIN LATERAL (
                        SELECT live.id FROM mainspring.tasks live
                        WHERE live.unique_key IS NOT NULL
                            AND coalesce(live.group_key, '') = coalesce(given.group_key, '')
                            AND live.unique_key = given.unique_key
                        LIMIT 1) t
                    WHERE given.id <> ALL (refused) AND given.id <> ALL (made)
                        AND given.id <> ALL (stored);
                END IF;
            END IF;
            is_settled := cardinality(made) + cardinality(refused) = cardinality(ids) OR NOT EXISTS (
                SELECT FROM unnest(ids) WITH ORDINALITY AS given (id, place)
                WHERE given.id <> ALL (refused) AND given.id <> ALL (made)
                    AND given.id <> ALL (stored) AND given.place <> ALL (taken));
            EXIT WHEN is_settled;
            RAISE EXCEPTION USING ERRCODE = 'MS002';
        EXCEPTION WHEN SQLSTATE 'MS002' THEN
            taken := '{}';
        END;
    END LOOP;
    IF NOT is_settled THEN
        RAISE EXCEPTION 'tasks with the unique keys of this batch come and go too quickly; submit it again'
            USING ERRCODE = 'serialization_failure';
    END IF;

    RETURN QUERY
    SELECT given.place::integer, given.id, false
    FROM unnest(ids) WITH ORDINALITY AS given (id, place)
    WHERE given.id = ANY (stored) AND given.id <> ALL (refused);
    RETURN QUERY
    SELECT given.place, given.id, false FROM unnest(taken, twins) AS given (place, id);
END
$$;
