-- Submission with group keys and unique keys, in functions of their own: versions that do not know of
-- them still run, and call those that were there.

-- Stores a batch and returns only what did not become a new task: the place in the batch (from 1),
-- the id that counts instead, and whether its key was used for another task. Arrays that are NULL
-- stand for the default in every place.
CREATE FUNCTION mainspring.submit_batch_v2(
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
            RAISE EXCEPTION USING ERRCODE = 'MS001';
        EXCEPTION WHEN SQLSTATE 'MS001' THEN
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

-- The same batch as one JSON document, for drivers whose arrays we cannot rely on.
CREATE FUNCTION mainspring.submit_json_v2(batch text, at timestamptz DEFAULT NULL)
RETURNS TABLE (place integer, id text, conflict boolean)
LANGUAGE sql AS $$
    SELECT answer.place, answer.id::text, answer.conflict
    FROM (
        SELECT
            array_agg((t.task->>'id')::uuid ORDER BY t.place) AS ids,
            array_agg(t.task->>'task_type' ORDER BY t.place) AS task_types,
            array_agg(t.task->>'payload' ORDER BY t.place) AS payloads,
            array_agg(t.task->>'queue' ORDER BY t.place) AS queues,
            array_agg((t.task->>'priority')::smallint ORDER BY t.place) AS priorities,
            array_agg((t.task->>'scheduled_at')::timestamptz ORDER BY t.place) AS scheduled_ats,
            array_agg((t.task->>'delay_seconds')::float8 ORDER BY t.place) AS delays,
            array_agg((t.task->>'timeout_seconds')::float8 ORDER BY t.place) AS timeouts,
            array_agg((t.task->>'max_retries')::integer ORDER BY t.place) AS retries,
            array_agg(t.task->>'backoff_kind' ORDER BY t.place) AS backoff_kinds,
            array_agg((t.task->>'backoff_base')::float8 ORDER BY t.place) AS backoff_bases,
            array_agg((t.task->>'backoff_multiplier')::float8 ORDER BY t.place) AS backoff_multipliers,
            array_agg((t.task->>'backoff_maximum')::float8 ORDER BY t.place) AS backoff_maxima,
            array_agg(t.task->>'key' ORDER BY t.place) AS keys,
            array_agg(t.task->>'fingerprint' ORDER BY t.place) AS fingerprints,
            array_agg(t.task->>'group_key' ORDER BY t.place) AS group_keys,
            array_agg(t.task->>'unique_key' ORDER BY t.place) AS unique_keys,
            count(t.task->>'group_key') + count(t.task->>'unique_key') AS with_new_keys
        FROM json_array_elements(batch::json) WITH ORDINALITY AS t (task, place)
    ) AS given
    CROSS JOIN LATERAL mainspring.submit_batch_v2(
        given.ids, given.task_types, given.payloads, given.queues, given.priorities,
        given.scheduled_ats, given.delays, given.timeouts, given.retries, given.backoff_kinds,
        given.backoff_bases, given.backoff_multipliers, given.backoff_maxima, given.keys,
        given.fingerprints, CASE WHEN given.with_new_keys > 0 THEN given.group_keys END,
        CASE WHEN given.with_new_keys > 0 THEN given.unique_keys END, submit_json_v2.at) AS answer
$$;

-- Refuses what is no key of a task.
CREATE FUNCTION mainspring.check_key_v1(field text, what text, key text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF key IS NOT NULL AND (char_length(key) NOT BETWEEN 1 AND 255 OR key ~ '[[:cntrl:]]') THEN
        RAISE EXCEPTION '% is %; % has 1 to 255 printable characters', field, quote_literal(left(key, 60)), what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Returns the stored name of what needs these labels of a queue, or refuses them.
CREATE FUNCTION mainspring.branch_v1(queue text, labels text[]) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    sorted text[] := ARRAY(
        SELECT DISTINCT l.label COLLATE "C" FROM unnest(labels) AS l (label) ORDER BY 1);
    bad text;
BEGIN
    IF sorted = '{}' THEN
        RETURN queue;
    END IF;
    SELECT coalesce(l.label, 'NULL') INTO bad FROM unnest(sorted) AS l (label)
    WHERE l.label IS NULL OR char_length(l.label) > 63
        OR l.label !~ '^[A-Za-z0-9_.-]+(=[A-Za-z0-9_.-]+)?$'
    LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'labels names %; a label has 1 to 63 letters, digits and _ . - and may have a value: gpu, region=eu', quote_literal(left(bad, 60))
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF cardinality(sorted) > 8 THEN
        RAISE EXCEPTION 'labels has % labels; give at most 8', cardinality(sorted)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT split_part(l.label, '=', 1) INTO bad FROM unnest(sorted) AS l (label)
    GROUP BY 1 HAVING count(*) > 1 LIMIT 1;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION 'labels names % twice; a task needs one value of a label', quote_literal(bad)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN queue || '@' || array_to_string(sorted, ',');
END
$$;

-- Submits one task from any language, in the caller's own transaction, with all that
-- `mainspring.submit` takes and more:
--   SELECT mainspring.submit_v2('sync', '{"customer": 7}', group_key => '7', unique_key => 'sync:7');
-- Returns the id of the task, or of the one that was submitted before under the same key, or of the
-- live one with the same unique key.
CREATE FUNCTION mainspring.submit_v2(
    task_type text,
    payload json DEFAULT '{}',
    queue text DEFAULT 'default',
    priority integer DEFAULT 5,
    run_at timestamptz DEFAULT NULL,
    delay_seconds float8 DEFAULT 0,
    timeout_seconds float8 DEFAULT 300,
    max_retries integer DEFAULT 3,
    key text DEFAULT NULL,
    labels text[] DEFAULT NULL,
    group_key text DEFAULT NULL,
    unique_key text DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    name_pattern constant text := '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$';
    branch text;
    asked json;
    task_id uuid;
    answer record;
BEGIN
    IF task_type IS NULL OR task_type !~ name_pattern THEN
        RAISE EXCEPTION 'task_type is %; a name has 1 to 200 characters, letters, digits and _ . : / - and starts with a letter, digit or _', quote_nullable(left(task_type, 60))
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF queue IS NULL OR queue !~ name_pattern THEN
        RAISE EXCEPTION 'queue is %; a name has 1 to 200 characters, letters, digits and _ . : / - and starts with a letter, digit or _', quote_nullable(left(queue, 60))
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF priority IS NULL OR priority NOT BETWEEN 0 AND 10 THEN
        RAISE EXCEPTION 'priority is %; give a whole number from 0 (most urgent) to 10', coalesce(priority::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF run_at IS NOT NULL AND NOT (run_at >= '1970-01-01Z' AND run_at < '2200-01-01Z') THEN
        RAISE EXCEPTION 'run_at is %; give a time from 1970 to 2199', run_at
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF delay_seconds IS NULL OR NOT (delay_seconds >= 0 AND delay_seconds <= 3153600000) THEN
        RAISE EXCEPTION 'delay_seconds is %; give a number of seconds from 0 to 3153600000, or a run_at', coalesce(delay_seconds::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF timeout_seconds IS NULL OR NOT (timeout_seconds > 0 AND timeout_seconds <= 2592000) THEN
        RAISE EXCEPTION 'timeout_seconds is %; give a number of seconds above 0 and up to 2592000', coalesce(timeout_seconds::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF max_retries IS NULL OR max_retries NOT BETWEEN 0 AND 1000 THEN
        RAISE EXCEPTION 'max_retries is %; give a whole number from 0 to 1000', coalesce(max_retries::text, 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF key IS NOT NULL AND unique_key IS NOT NULL THEN
        RAISE EXCEPTION 'unique_key and key are both given; keep key to make a task once for ever, or unique_key to make none beside one that is live'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM mainspring.check_key_v1('key', 'an idempotency key', key);
    PERFORM mainspring.check_key_v1('group_key', 'a group key', group_key);
    PERFORM mainspring.check_key_v1('unique_key', 'a unique key', unique_key);
    PERFORM mainspring.check_payload_v1(payload);
    branch := mainspring.branch_v1(queue, labels);

    -- As `mainspring.submit` says it, so that a key may be used through both.
    asked := json_build_array(task_type, payload::jsonb, branch, priority, run_at);
    IF group_key IS NOT NULL THEN
        asked := json_build_array(task_type, payload::jsonb, branch, priority, run_at, group_key);
    END IF;
    task_id := mainspring.new_task_id_v1(coalesce(group_key, unique_key, key));
    SELECT * INTO answer FROM mainspring.submit_batch_v2(
        ARRAY[task_id], ARRAY[task_type], ARRAY[payload::text], ARRAY[branch],
        ARRAY[priority::smallint], ARRAY[run_at], ARRAY[delay_seconds], ARRAY[timeout_seconds],
        ARRAY[max_retries], NULL, NULL, NULL, NULL,
        CASE WHEN key IS NOT NULL THEN ARRAY[key] END,
        ARRAY[encode(sha256(convert_to(asked::text, 'UTF8')), 'hex')],
        CASE WHEN group_key IS NOT NULL THEN ARRAY[group_key] END,
        CASE WHEN unique_key IS NOT NULL THEN ARRAY[unique_key] END);
    IF answer.conflict THEN
        RAISE EXCEPTION 'the key % was used before for a different task (%); use another key, or submit what was submitted first',
            quote_literal(left(key, 60)), answer.id
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN coalesce(answer.id, task_id);
END
$$;
