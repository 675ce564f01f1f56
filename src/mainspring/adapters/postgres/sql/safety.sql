-- name: safety_settings
-- What decides whether an acknowledged commit survives a loss of power.
SELECT name, setting FROM pg_settings
WHERE name IN (
    'fsync', 'synchronous_commit', 'synchronous_standby_names', 'full_page_writes',
    'server_version_num'
);

-- name: is_read_only
-- A standby, or a server or database that was set to accept no writes.
SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on' AS read_only;
