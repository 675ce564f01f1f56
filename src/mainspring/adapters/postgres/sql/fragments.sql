-- Look-ups. A prepared statement keeps its plan until the statistics of a table change. When a vacuum
-- has found the tasks empty, as it finds a queue that is worked off, a walk over the whole key looks
-- as cheap as a look-up in it, and after a burst every batch would take it. So rows are looked up in
-- a way that leaves no other choice:
--   * `t.id = ANY (ARRAY[x.id])` in place of `t.id = x.id`: no hash or merge join, and so no walk.
--   * `EXISTS (... OFFSET 0)`: asked for each row, never made a join.
--   * `x < (SELECT now FROM clock)` in place of a join with the clock: a condition of the index.
-- Session settings keep a Seq Scan of the empty table out (`pool.SESSION`). A pooler lets none through,
-- but behind one nothing is prepared, and each statement is planned for the table as it is. A test
-- (test_empty_plans.py) holds all statements to it.

-- fragment: moved
-- The columns that a task takes along when it leaves the live table.
id, scheduled_at, created_at, started_at, fencing_token, timeout_seconds, attempt_count,
crash_count, max_retries, priority, queue, task_type, worker_id, key, backoff_kind, backoff,
payload, progress, schedule, nominal_at, previous_nominal_at, group_key, unique_key

-- fragment: shown
-- The status of a live task as people see it: what has to be admitted first waits like the others.
CASE
    WHEN t.status NOT IN ('coming', 'held') THEN t.status
    WHEN t.attempt_count > 0 THEN 'retrying'
    ELSE 'pending'
END

-- fragment: attempts_after
-- The attempts with one more failure, of which no more than $2 are kept: the first and the last.
CASE
    WHEN t.attempts IS NULL THEN jsonb_build_array(entry.value)
    WHEN jsonb_array_length(t.attempts) < $2::integer THEN t.attempts || entry.value
    ELSE (t.attempts - 1) || entry.value
END

-- fragment: entry
-- One failed attempt as it is kept with the task.
CROSS JOIN LATERAL (
    SELECT jsonb_build_object(
        'attempt', t.attempt_count, 'kind', o.kind, 'error', o.error, 'traceback', o.traceback,
        'worker_id', t.worker_id, 'started_at', t.started_at, 'ended_at', clock.now) AS value
) entry
