-- no-transaction
-- The indexes of groups, built beside running tasks. All are empty where no group key is used. A build
-- that was broken off leaves an index that is not valid, so each is dropped first.

-- What becomes due and has to be looked at.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_coming;
CREATE INDEX CONCURRENTLY tasks_coming ON mainspring.tasks (scheduled_at)
    WHERE status = 'coming';

-- What is held, by group, best first.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_held;
CREATE INDEX CONCURRENTLY tasks_held
    ON mainspring.tasks (split_part(queue, '@', 1), group_key, priority, scheduled_at, id)
    WHERE status = 'held';

-- Counting what of a group is admitted: it waits to be claimed, or runs.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_admitted;
CREATE INDEX CONCURRENTLY tasks_admitted
    ON mainspring.tasks (split_part(queue, '@', 1), group_key)
    WHERE group_key IS NOT NULL AND status IN ('pending', 'retrying', 'running');

-- One live task for each unique key, within its group.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_unique;
CREATE UNIQUE INDEX CONCURRENTLY tasks_unique
    ON mainspring.tasks (coalesce(group_key, ''), unique_key)
    WHERE unique_key IS NOT NULL;
