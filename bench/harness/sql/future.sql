-- Tasks due a day from now and later, one every tenth of a second, over all priorities.
-- $1 and $2: numbers of the first and the last.
INSERT INTO mainspring.tasks (
    id, scheduled_at, created_at, timeout_seconds, max_retries, priority, queue, task_type,
    backoff_kind, payload)
SELECT
    (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 40000000 + n / 4), 12, '0')
        || '7' || lpad(to_hex(n % 4096), 3, '0') || 'a' || lpad(to_hex(n), 15, '0'))::uuid,
    now() + interval '1 day' + n * interval '100 milliseconds', now(), 300, 3, n % 11, 'default',
    'noop', 'exponential',
    '{"payload":{"user_id":123456,"email":"someone@example.com","action":"send_welcome","ref":"a1b2c3d4e5f60718"}}'
FROM generate_series($1::bigint, $2::bigint) AS n
