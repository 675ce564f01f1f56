-- name: create_migration_records
-- The one thing that cannot be a migration: where it is written down which were applied.
CREATE SCHEMA IF NOT EXISTS mainspring;
CREATE TABLE IF NOT EXISTS mainspring.schema_migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    digest text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: has_migration_records
-- On an empty database there is nothing to read them from.
SELECT to_regclass('mainspring.schema_migrations') IS NOT NULL;

-- name: applied_migrations
-- In order, so that the oldest difference is the one that is reported.
SELECT number, name, digest FROM mainspring.schema_migrations ORDER BY number;

-- name: record_migration
-- In the transaction of the migration where it has one.
-- $1 number, $2 name, $3 digest.
INSERT INTO mainspring.schema_migrations (number, name, digest) VALUES ($1, $2, $3);

-- name: grant_services
-- After every migration: one may have added tables.
-- $1 role.
SELECT mainspring.grant_services_v1(quote_ident($1)::regrole);
