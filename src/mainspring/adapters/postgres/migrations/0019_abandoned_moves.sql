-- What a process that died left refused is let go again by schedulers (docs/guides/cluster.md).

ALTER TABLE mainspring.shard_map
    -- Since when the partitions that are just leaving are refused, and until when at most by the process
    -- that moves them, both by the clock of this database.
    ADD COLUMN refused_since timestamptz,
    ADD COLUMN refused_until timestamptz;

-- As the owner of the tables, so that schedulers, whose role need not own them, can let go of partitions.
-- Both have a search path of their own, and put nothing but numbers and names from the catalog together.
ALTER FUNCTION mainspring.guard_partitions_v1(integer[]) SECURITY DEFINER;
ALTER FUNCTION mainspring.note_changes_v1(integer[]) SECURITY DEFINER;
REVOKE EXECUTE ON FUNCTION mainspring.guard_partitions_v1(integer[]) FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION mainspring.note_changes_v1(integer[]) FROM PUBLIC;
