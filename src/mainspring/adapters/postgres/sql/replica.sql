-- How far a primary has written its log and a replica has replayed it.

-- name: written_upto
-- What is acknowledged by now lies before this place.
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS place, c.system_identifier AS system
FROM pg_control_system() c;

-- name: replayed_upto
-- What lies before this place can be read. A server that was promoted is no replica any more.
SELECT pg_wal_lsn_diff(coalesce(pg_last_wal_replay_lsn(), '0/0'), '0/0')::bigint AS place,
    pg_is_in_recovery() AS is_replica, c.system_identifier AS system
FROM pg_control_system() c;
