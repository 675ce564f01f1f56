-- Submission is one function, so that every driver and every language stores tasks the same way
-- and inside its own transaction if it wants to.

-- Stores a batch and returns only what did not become a new task: the place in the batch (from 1),
-- the id that counts instead, and whether its key was used for another task. Arrays that are NULL
-- stand for the default in every place.
CREATE FUNCTION mainspring.submit_batch_v1(
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
SET plan_cache_mode = 'force_generic_plan' AS $$
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
        JOIN mainspring.idempotency known ON known.key = given.key
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
                WHERE known.key = given.key AND known.task_id = given.id));
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

-- The same batch as one JSON document, for drivers whose arrays we cannot rely on.
CREATE FUNCTION mainspring.submit_json_v1(batch text, at timestamptz DEFAULT NULL)
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
            array_agg(t.task->>'fingerprint' ORDER BY t.place) AS fingerprints
        FROM json_array_elements(batch::json) WITH ORDINALITY AS t (task, place)
    ) AS given
    CROSS JOIN LATERAL mainspring.submit_batch_v1(
        given.ids, given.task_types, given.payloads, given.queues, given.priorities,
        given.scheduled_ats, given.delays, given.timeouts, given.retries, given.backoff_kinds,
        given.backoff_bases, given.backoff_multipliers, given.backoff_maxima, given.keys,
        given.fingerprints, submit_json_v1.at) AS answer
$$;

-- Completes a running task in the caller's own transaction. False: the lease is lost, and the
-- caller has to roll back.
-- transition: complete
CREATE FUNCTION mainspring.complete_v1(
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
            task_type, worker_id, key, backoff_kind, backoff, payload, progress, result, attempts)
        SELECT
            e.id, e.scheduled_at, e.created_at, e.started_at,
            coalesce(complete_v1.at, clock_timestamp()), e.fencing_token, e.timeout_seconds,
            e.attempt_count, e.crash_count, e.max_retries, e.priority, 'completed', e.queue,
            e.task_type, e.worker_id, e.key, e.backoff_kind, e.backoff, e.payload, e.progress,
            complete_v1.result::json, e.attempts
        FROM ended e
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM kept)
$$;

-- Submits one task from any language, in the caller's own transaction:
--   SELECT mainspring.submit('send_email', '{"user_id": 123}', delay_seconds => 60);
-- Returns the id of the task, or of the one that was submitted before under the same key.
CREATE FUNCTION mainspring.submit(
    task_type text,
    payload json DEFAULT '{}',
    queue text DEFAULT 'default',
    priority integer DEFAULT 5,
    run_at timestamptz DEFAULT NULL,
    delay_seconds float8 DEFAULT 0,
    timeout_seconds float8 DEFAULT 300,
    max_retries integer DEFAULT 3,
    key text DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    name_pattern constant text := '^[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$';
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
    ELSIF key IS NOT NULL AND (char_length(key) NOT BETWEEN 1 AND 255 OR key ~ '[[:cntrl:]]') THEN
        RAISE EXCEPTION 'key is %; an idempotency key has 1 to 255 printable characters', quote_literal(left(key, 60))
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM mainspring.check_payload_v1(payload);

    task_id := mainspring.new_task_id_v1(key);
    SELECT * INTO answer FROM mainspring.submit_batch_v1(
        ARRAY[task_id], ARRAY[task_type], ARRAY[payload::text], ARRAY[queue],
        ARRAY[priority::smallint], ARRAY[run_at], ARRAY[delay_seconds], ARRAY[timeout_seconds],
        ARRAY[max_retries], NULL, NULL, NULL, NULL,
        CASE WHEN key IS NOT NULL THEN ARRAY[key] END,
        ARRAY[encode(sha256(convert_to(
            json_build_array(task_type, payload::jsonb, queue, priority, run_at)::text, 'UTF8')), 'hex')]);
    IF answer.conflict THEN
        RAISE EXCEPTION 'the key % was used before for a different task (%); use another key, or submit what was submitted first',
            quote_literal(left(key, 60)), answer.id
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN coalesce(answer.id, task_id);
END
$$;

-- A UUIDv7: 48 bits of milliseconds, and random bits but for the version, the variant and, under a
-- key, the last 16, which decide the partition and are the same for all tasks of the key.
CREATE FUNCTION mainspring.new_task_id_v1(key text DEFAULT NULL) RETURNS uuid
LANGUAGE sql VOLATILE AS $$
    SELECT overlay(
        overlay(
            lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0')
                || '7' || substr(random_hex, 14, 3)
                || to_hex(8 + get_byte(decode(random_hex, 'hex'), 0) % 4) || substr(random_hex, 18)
            PLACING '' FROM 33)
        PLACING coalesce(
            encode(substr(sha256(convert_to(key, 'UTF8')), 1, 2), 'hex'), substr(random_hex, 29, 4))
        FROM 29)::uuid
    FROM replace(gen_random_uuid()::text, '-', '') AS random_hex
$$;

-- Refuses what some part of the system could not store or give back unchanged.
CREATE FUNCTION mainspring.check_payload_v1(payload json) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    bare text := payload::text;
    peeled text;
BEGIN
    IF payload IS NULL OR json_typeof(payload) <> 'object' THEN
        RAISE EXCEPTION 'payload is %; give a JSON object with the parameters of the handler', coalesce(left(bare, 60), 'NULL')
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(bare) > 262144 THEN
        RAISE EXCEPTION 'payload has % bytes; at most 262144 are accepted, so store the data elsewhere and pass a reference', octet_length(bare)
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- What is left without the strings are brackets, numbers and words.
    bare := regexp_replace(bare, '"([^"\\]|\\.)*"', '""', 'g');
    IF bare ~ '[0-9]{65}' OR bare ~ '[eE][+-]?0*[0-9]{4}' OR bare ~ '[eE]\+?0*(309|3[1-9][0-9]|[4-9][0-9]{2})' THEN
        RAISE EXCEPTION 'payload has a number of more than 64 digits or beyond 1e308; send it as text'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    bare := regexp_replace(bare, '[^][{}]', '', 'g');
    FOR level IN 1 .. 64 LOOP
        peeled := regexp_replace(bare, '\[\]|\{\}', '', 'g');
        EXIT WHEN peeled = '';
        bare := peeled;
    END LOOP;
    IF peeled <> '' THEN
        RAISE EXCEPTION 'payload is nested deeper than 64 levels; make it flatter'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- jsonb refuses the NUL character and halves of surrogate pairs, which json lets pass.
    PERFORM payload::jsonb;
EXCEPTION WHEN untranslatable_character OR invalid_text_representation THEN
    RAISE EXCEPTION 'payload contains the NUL character or half of a surrogate pair; remove it'
        USING ERRCODE = 'invalid_parameter_value';
END
$$;
