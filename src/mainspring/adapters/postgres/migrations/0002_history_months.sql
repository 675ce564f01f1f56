-- One partition of the history for each month of the ids, so that old months are dropped whole.

CREATE FUNCTION mainspring.first_id_of(moment timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT AS $$
    -- The smallest UUIDv7 that could have been made at the moment: 48 bits of milliseconds.
    SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;

CREATE FUNCTION mainspring.prepare_history_v1(months_ahead integer, at timestamptz DEFAULT NULL)
RETURNS SETOF text
LANGUAGE plpgsql
SET lock_timeout = '1s' AS $$
DECLARE
    month timestamptz;
    partition_name text;
    low uuid;
    high uuid;
BEGIN
    FOR ahead IN 0 .. months_ahead LOOP
        month := date_trunc('month', coalesce(at, clock_timestamp()) AT TIME ZONE 'UTC')
            AT TIME ZONE 'UTC';
        month := (month AT TIME ZONE 'UTC' + make_interval(months => ahead)) AT TIME ZONE 'UTC';
        partition_name := 'task_history_' || to_char(month AT TIME ZONE 'UTC', 'YYYY_MM');
        low := mainspring.first_id_of(month);
        high := mainspring.first_id_of((month AT TIME ZONE 'UTC' + interval '1 month') AT TIME ZONE 'UTC');
        -- Rows that are already in the default partition stay there: moving them would block the workers.
        CONTINUE WHEN to_regclass(format('mainspring.%I', partition_name)) IS NOT NULL
            OR EXISTS (SELECT FROM mainspring.task_history_default WHERE id >= low AND id < high);
        -- Attached rather than created in place: that would lock the whole history.
        EXECUTE format(
            'CREATE TABLE mainspring.%I (LIKE mainspring.task_history INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
            partition_name);
        EXECUTE format(
            'ALTER TABLE mainspring.task_history ATTACH PARTITION mainspring.%I FOR VALUES FROM (%L) TO (%L)',
            partition_name, low, high);
        RETURN NEXT partition_name;
    END LOOP;
END
$$;

-- Waiting for a lock is bounded: everybody who reads or finishes tasks would queue up behind it.
CREATE FUNCTION mainspring.drop_history_v1(finished_before timestamptz) RETURNS SETOF text
LANGUAGE plpgsql
SET lock_timeout = '1s' AS $$
DECLARE
    part record;
    young boolean;
BEGIN
    FOR part IN
        SELECT c.relname FROM pg_inherits i
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'mainspring.task_history'::regclass
            AND c.relname ~ '^task_history_\d{4}_\d\d$'
            AND c.relname COLLATE "C"
                < 'task_history_' || to_char(finished_before AT TIME ZONE 'UTC', 'YYYY_MM')
        ORDER BY c.relname COLLATE "C"
    LOOP
        EXECUTE format(
            'SELECT EXISTS (SELECT FROM mainspring.%I WHERE completed_at >= $1)', part.relname)
            INTO young USING finished_before;
        CONTINUE WHEN young;
        EXECUTE format('DROP TABLE mainspring.%I', part.relname);
        RETURN NEXT part.relname;
    END LOOP;
END
$$;

SELECT mainspring.prepare_history_v1(2);
