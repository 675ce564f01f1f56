-- How large the tables and their indexes are, how much was written ahead, and what is live.
SELECT
    pg_table_size('mainspring.tasks') AS tasks_bytes,
    pg_indexes_size('mainspring.tasks') AS task_index_bytes,
    (SELECT coalesce(sum(pg_table_size(p.inhrelid)), 0)::bigint FROM pg_inherits p
        WHERE p.inhparent = 'mainspring.task_history'::regclass) AS history_bytes,
    (SELECT coalesce(sum(pg_indexes_size(p.inhrelid)), 0)::bigint FROM pg_inherits p
        WHERE p.inhparent = 'mainspring.task_history'::regclass) AS history_index_bytes,
    pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes,
    (SELECT count(*) FROM mainspring.tasks) AS live_tasks
