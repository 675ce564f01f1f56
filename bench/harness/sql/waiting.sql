-- Tasks that are due and wait, of the lowest priority, the oldest a minute ago.
-- $1 and $2: numbers of the first and the last.
INSERT INTO mainspring.tasks (
    id, scheduled_at, created_at, timeout_seconds, max_retries, priority, queue, task_type,
    backoff_kind, payload)
SELECT
    (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 50000000 + n / 4), 12, '0')
        || '7' || lpad(to_hex(n % 4096), 3, '0') || 'b' || lpad(to_hex(n), 15, '0'))::uuid,
    now() - interval '1 minute' + n * interval '20 microseconds', now(), 300, 3, 10, 'default',
    'noop', 'exponential',
    '{"payload":{"user_id":123456,"email":"someone@example.com","action":"send_welcome","ref":"a1b2c3d4e5f60718"}}'
FROM generate_series($1::bigint, $2::bigint) AS n
