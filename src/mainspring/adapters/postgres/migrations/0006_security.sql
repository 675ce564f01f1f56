-- Certificates as keys, the audit of one namespace, and services whose role may change no table.

-- A key without a secret belongs to whoever shows a client certificate of that name.
ALTER TABLE mainspring.api_keys ALTER COLUMN digest DROP NOT NULL;
ALTER TABLE mainspring.api_keys ADD COLUMN certificate text COLLATE "C";
ALTER TABLE mainspring.api_keys ADD CONSTRAINT api_keys_proof
    CHECK ((digest IS NULL) <> (certificate IS NULL) AND octet_length(certificate) BETWEEN 1 AND 255);
CREATE UNIQUE INDEX api_keys_by_certificate ON mainspring.api_keys (certificate)
    WHERE revoked_at IS NULL;

-- Tasks that one actor submits at the same time share a record, which has the id of each.
ALTER TABLE mainspring.audit ADD COLUMN task_ids uuid[];

-- Each namespace reads its own records, newest first.
CREATE INDEX audit_by_namespace ON mainspring.audit (namespace, id);

-- Months are made and dropped as the owner of the tables, so that the role of the services need not
-- own them. The bodies name the schema of everything, so the path holds nothing of a caller.
ALTER FUNCTION mainspring.prepare_history_v1(integer, timestamptz)
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION mainspring.drop_history_v1(timestamptz)
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
REVOKE EXECUTE ON FUNCTION mainspring.prepare_history_v1(integer, timestamptz) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION mainspring.drop_history_v1(timestamptz) FROM PUBLIC;

-- What the services need and no more: rows of tasks and schedules, but neither keys nor the records
-- of migrations, and the audit only to read and to append to. Repeated after each migration.
CREATE FUNCTION mainspring.grant_services_v1(services regrole) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA mainspring TO %s', services);
    EXECUTE format(
        'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA mainspring TO %s', services);
    EXECUTE format(
        'REVOKE INSERT, UPDATE, DELETE ON mainspring.schema_migrations, mainspring.api_keys, '
        'mainspring.namespaces FROM %s', services);
    EXECUTE format('REVOKE UPDATE, DELETE ON mainspring.audit FROM %s', services);
    EXECUTE format('GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA mainspring TO %s', services);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA mainspring TO %s', services);
END
$$;
