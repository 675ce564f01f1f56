-- Keys, namespaces and the audit of the API. A namespace is the first part of the names of its
-- queues, schedules and idempotency keys, so those may be longer than what a caller gives.

ALTER TABLE mainspring.queues DROP CONSTRAINT queues_name;
ALTER TABLE mainspring.queues ADD CONSTRAINT queues_name
    CHECK (name ~ '^([a-z0-9][a-z0-9-]{0,62}~)?[A-Za-z0-9_][A-Za-z0-9_.:/-]{0,199}$');
ALTER TABLE mainspring.tasks DROP CONSTRAINT tasks_queue;
-- Not checked against the rows that are there: they passed a stricter one.
ALTER TABLE mainspring.tasks ADD CONSTRAINT tasks_queue
    CHECK (octet_length(queue) BETWEEN 1 AND 264) NOT VALID;
ALTER TABLE mainspring.idempotency DROP CONSTRAINT idempotency_key;
ALTER TABLE mainspring.idempotency ADD CONSTRAINT idempotency_key
    CHECK (char_length(key) BETWEEN 1 AND 320) NOT VALID;
ALTER TABLE mainspring.schedules DROP CONSTRAINT schedules_name;
ALTER TABLE mainspring.schedules ADD CONSTRAINT schedules_name
    CHECK (octet_length(name) BETWEEN 1 AND 264) NOT VALID;

CREATE TABLE mainspring.namespaces (
    name text COLLATE "C" PRIMARY KEY,
    pending_max bigint,
    schedules_max bigint,
    submit_rate float8,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT namespaces_name CHECK (name ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    CONSTRAINT namespaces_quotas CHECK (pending_max >= 0 AND schedules_max >= 0 AND submit_rate > 0)
);

INSERT INTO mainspring.namespaces (name) VALUES ('default');

CREATE TABLE mainspring.api_keys (
    key_id text COLLATE "C" PRIMARY KEY,
    -- SHA-256 of the secret, which itself is stored nowhere.
    digest bytea NOT NULL,
    name text NOT NULL,
    namespace text COLLATE "C" NOT NULL REFERENCES mainspring.namespaces (name),
    scopes text[] NOT NULL,
    queues text[],
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CONSTRAINT api_keys_digest CHECK (octet_length(digest) = 32),
    CONSTRAINT api_keys_scopes CHECK (scopes <@ ARRAY['submit', 'read', 'work', 'admin'])
);

CREATE TABLE mainspring.audit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    subject text NOT NULL,
    address text NOT NULL,
    request_id text NOT NULL,
    count integer NOT NULL
);

CREATE FUNCTION mainspring.refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    -- What is a year old may be deleted, so that the table does not grow for ever.
    IF TG_OP = 'DELETE' AND OLD.at < clock_timestamp() - interval '1 year' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON mainspring.audit
    FOR EACH ROW EXECUTE FUNCTION mainspring.refuse_audit_change();
CREATE TRIGGER audit_is_not_truncated BEFORE TRUNCATE ON mainspring.audit
    FOR EACH STATEMENT EXECUTE FUNCTION mainspring.refuse_audit_change();

-- Figures of what ended lately, whoever ran it and in whichever language. Ends arrive nearly in
-- order, so a block range index finds them if new ranges are summarised without waiting for a vacuum.
DROP INDEX mainspring.task_history_by_end;
CREATE INDEX task_history_by_end ON mainspring.task_history
    USING brin (completed_at) WITH (autosummarize = on);
CREATE INDEX dead_letters_by_end ON mainspring.dead_letters (completed_at);

CREATE FUNCTION mainspring.finished_since_v1(
    after timestamptz, upto timestamptz, late_bounds float8[], long_bounds float8[]
) RETURNS TABLE (
    task_type text, outcome text, late_bucket integer, long_bucket integer, count bigint,
    lateness float8, duration float8
)
LANGUAGE sql STABLE
SET enable_bitmapscan = on AS $$
    SELECT f.task_type, f.outcome, width_bucket(f.late, late_bounds),
        width_bucket(f.long, long_bounds), count(*), sum(f.late), sum(f.long)
    FROM (
        SELECT h.task_type, h.status AS outcome,
            greatest(0, extract(epoch FROM h.started_at - h.scheduled_at))::float8 AS late,
            extract(epoch FROM h.completed_at - h.started_at)::float8 AS long
        FROM mainspring.task_history h
        WHERE h.completed_at > after AND h.completed_at <= upto
        UNION ALL
        SELECT d.task_type, 'failed',
            greatest(0, extract(epoch FROM d.started_at - d.scheduled_at))::float8,
            extract(epoch FROM d.completed_at - d.started_at)::float8
        FROM mainspring.dead_letters d
        WHERE d.completed_at > after AND d.completed_at <= upto
    ) f
    GROUP BY 1, 2, 3, 4
$$;

-- What only ever grows and is in no row of a task.
CREATE TABLE mainspring.counters (
    name text COLLATE "C" PRIMARY KEY,
    value bigint NOT NULL
);
INSERT INTO mainspring.counters (name, value) VALUES ('leases_expired', 0);
