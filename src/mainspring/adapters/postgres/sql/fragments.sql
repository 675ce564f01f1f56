-- fragment: moved
-- The columns that a task takes along when it leaves the live table.
id, scheduled_at, created_at, started_at, fencing_token, timeout_seconds, attempt_count,
crash_count, max_retries, priority, queue, task_type, worker_id, key, backoff_kind, backoff,
payload, progress, schedule, nominal_at, previous_nominal_at

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
