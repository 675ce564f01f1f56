-- name: server_facts
-- What a look at the server has to know: settings that durability rests on, whether it takes
-- writes, how old the oldest snapshot is (it keeps dead rows alive), and its clock.
SELECT
    current_setting('server_version') AS version,
    current_setting('fsync') AS fsync,
    current_setting('full_page_writes') AS full_page_writes,
    current_setting('synchronous_commit') AS synchronous_commit,
    current_setting('synchronous_standby_names') AS synchronous_standby_names,
    current_setting('max_connections')::integer AS max_connections,
    pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean AS read_only,
    coalesce((
        SELECT extract(epoch FROM max(clock_timestamp() - xact_start))
        FROM pg_stat_activity
        WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
    ), 0)::float8 AS oldest_snapshot_seconds,
    clock_timestamp() AS now;

-- name: look
-- The least that makes the server give this transaction a snapshot.
SELECT 1;

-- name: whereabouts
-- Which process of which server answers, and for which database: a pooler gives itself away by
-- another process than it named when the connection was made.
SELECT
    pg_backend_pid() AS pid,
    pg_postmaster_start_time()::text || ' '
        || (SELECT d.oid::text FROM pg_database d WHERE d.datname = current_database()) AS database;
