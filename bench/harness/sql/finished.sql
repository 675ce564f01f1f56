-- Tasks that were completed, in the order of their ids, as the history receives them.
-- $1 and $2: numbers of the first and the last.
INSERT INTO mainspring.task_history (
    id, scheduled_at, created_at, started_at, completed_at, fencing_token, timeout_seconds,
    attempt_count, crash_count, max_retries, priority, status, queue, task_type, worker_id,
    backoff_kind, payload)
SELECT
    (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 60000000 + n / 4), 12, '0')
        || '7' || lpad(to_hex(n % 4096), 3, '0') || 'c' || lpad(to_hex(n), 15, '0'))::uuid,
    moment, moment, moment, moment, 1, 300, 1, 0, 3, 5, 'completed', 'default', 'noop',
    'bench:1:00000000', 'exponential',
    '{"payload":{"user_id":123456,"email":"someone@example.com","action":"send_welcome","ref":"a1b2c3d4e5f60718"}}'
FROM generate_series($1::bigint, $2::bigint) AS n,
    LATERAL (SELECT now() - interval '60000 seconds' + n * interval '250 microseconds' AS moment) m
