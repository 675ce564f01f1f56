-- Fills a fresh store with what long use would leave in it: a million tasks that wait (a claim from
-- 300,000 is planned in another way), 300,000 of the future and 500,000 finished ones. Indexes are
-- made at the end, `OFFSET 0` has a time worked out once for all its columns, and nothing waits for
-- the disk: nobody needs this data after a crash.
SET synchronous_commit = off;
SET maintenance_work_mem = '256MB';

CREATE UNLOGGED TABLE mainspring.full_month
    (LIKE mainspring.task_history INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
INSERT INTO mainspring.full_month (
    id, scheduled_at, created_at, started_at, completed_at, fencing_token, timeout_seconds,
    attempt_count, crash_count, max_retries, priority, status, queue, task_type, worker_id,
    backoff_kind, payload, result)
SELECT
    (lpad(to_hex((extract(epoch FROM made.at) * 1000)::bigint), 12, '0') || '7000'
        || lpad(to_hex(n), 16, '8'))::uuid,
    made.at, made.at, made.at, made.at, 1, 300, 1, 0, 3, 5,
    CASE WHEN n % 500 = 0 THEN 'cancelled' ELSE 'completed' END,
    'default', 'type_' || n % 10, 'w', 'exponential', '{"user_id": 123456}', '{}'
FROM generate_series(1, 500000) n
CROSS JOIN (SELECT date_trunc('month', now()) AS ends) month
CROSS JOIN LATERAL (SELECT month.ends - (500001 - n) * interval '2 s' AS at OFFSET 0) made;
ALTER TABLE mainspring.full_month ADD PRIMARY KEY (id);
CREATE INDEX ON mainspring.full_month (task_type, status, id);
CREATE INDEX ON mainspring.full_month USING brin (completed_at);
DO $$
BEGIN
    EXECUTE format(
        'ALTER TABLE mainspring.task_history ATTACH PARTITION mainspring.full_month '
            'FOR VALUES FROM (%L) TO (%L)',
        mainspring.first_id_of(date_trunc('month', now()) - interval '1 month'),
        mainspring.first_id_of(date_trunc('month', now())));
END
$$;

CREATE TEMPORARY TABLE later AS
SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS made
FROM pg_index WHERE indrelid = 'mainspring.tasks'::regclass AND NOT indisprimary;
DO $$
BEGIN
    EXECUTE (SELECT string_agg('DROP INDEX ' || name, ';') FROM later);
END
$$;
INSERT INTO mainspring.tasks (
    id, task_type, payload, queue, priority, scheduled_at, created_at, timeout_seconds,
    max_retries, backoff_kind)
SELECT
    (lpad(to_hex((extract(epoch FROM made.at) * 1000)::bigint), 12, '0') || '7001'
        || lpad(to_hex(n), 16, '8'))::uuid,
    'type_' || n % 10, '{"user_id": 123456}', 'default', n % 11, made.at, made.at, 300, 3,
    'exponential'
FROM generate_series(1, 1000000) n
CROSS JOIN LATERAL (SELECT now() - (1000001 - n) * interval '10 ms' AS at OFFSET 0) made;
INSERT INTO mainspring.tasks (
    id, task_type, payload, queue, priority, scheduled_at, created_at, timeout_seconds,
    max_retries, backoff_kind)
SELECT
    (lpad(to_hex((extract(epoch FROM made.at) * 1000)::bigint), 12, '0') || '7002'
        || lpad(to_hex(n), 16, '8'))::uuid,
    'type_' || n % 10, '{"user_id": 123456}', 'future', n % 11, made.at + interval '1 day',
    made.at, 300, 3, 'exponential'
FROM generate_series(1, 300000) n
CROSS JOIN LATERAL (SELECT now() - (300001 - n) * interval '33 ms' AS at OFFSET 0) made;
DO $$
BEGIN
    EXECUTE (SELECT string_agg(made, ';') FROM later);
END
$$;
INSERT INTO mainspring.queues (name) VALUES ('default'), ('future') ON CONFLICT DO NOTHING;
VACUUM (ANALYZE) mainspring.tasks;
ANALYZE;
