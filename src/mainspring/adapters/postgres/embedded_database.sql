-- Run once by PostgreSQL in single-user mode on a fresh data directory: one statement a line.
-- {password} is replaced by a random one of letters, digits, '-' and '_'.
ALTER ROLE mainspring PASSWORD '{password}'
CREATE DATABASE mainspring
