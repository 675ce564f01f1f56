-- Schedules whose runs have a group, a unique key or a webhook.

ALTER TABLE mainspring.schedules
    ADD COLUMN group_key text COLLATE "C",
    ADD COLUMN unique_key text COLLATE "C",
    -- Url, events, sign and queue, as tasks keep them in mainspring.webhooks.
    ADD COLUMN webhook json;

-- Refuses to make a run whose group or unique key, which decides its partition, is in another shard: the
-- runs are in the partition of their schedule, and limits are kept within one shard. Schedules are made
-- in the partition of their key where there are several shards; one that was made before there were may
-- be parted from it when partitions move.
CREATE FUNCTION mainspring.check_run_key_v1(key text) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
    key_partition integer;
BEGIN
    IF key IS NULL OR NOT EXISTS (SELECT FROM mainspring.shard_map) THEN
        RETURN true;
    END IF;
    key_partition := mainspring.partition_of_group_v1(key);
    IF key_partition = ANY (mainspring.leaving_v1()) THEN
        RAISE EXCEPTION 'the group or unique key % of the runs is in partition %, which is just moving to another shard', quote_literal(left(key, 60)), key_partition
            USING ERRCODE = 'MS001';
    ELSIF NOT EXISTS (
            SELECT FROM mainspring.own_partitions_v1() AS own (partition)
            WHERE own.partition = key_partition)
    THEN
        RAISE EXCEPTION 'the group or unique key % of the runs is in partition %, which another shard keeps; delete the schedule and create it under a name of that partition, which creating it tells', quote_literal(left(key, 60)), key_partition
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN true;
END
$$;
