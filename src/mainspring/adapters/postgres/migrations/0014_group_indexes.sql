-- no-transaction
-- The indexes of groups, built beside running tasks. All are empty where no group key is used. A build
-- that was broken off leaves an index that is not valid, so each is dropped first.

-- What becomes due and has to be looked at, of a queue and its branches.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_coming;
CREATE INDEX CONCURRENTLY tasks_coming ON mainspring.tasks (split_part(queue, '@', 1), scheduled_at)
    WHERE status = 'coming';

-- What is held, by line and branch, best first.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_held;
CREATE INDEX CONCURRENTLY tasks_held
    ON mainspring.tasks (split_part(queue, '@', 1), group_key, priority, queue, scheduled_at, id)
    WHERE status = 'held';

-- What is admitted and waits to be claimed, by group.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_admitted;
CREATE INDEX CONCURRENTLY tasks_admitted
    ON mainspring.tasks (split_part(queue, '@', 1), group_key)
    WHERE group_key IS NOT NULL AND status IN ('pending', 'retrying');

-- What of a group runs.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_group_running;
CREATE INDEX CONCURRENTLY tasks_group_running
    ON mainspring.tasks (split_part(queue, '@', 1), group_key)
    WHERE group_key IS NOT NULL AND status = 'running';

-- One live task for each unique key, within its group.
DROP INDEX CONCURRENTLY IF EXISTS mainspring.tasks_unique;
CREATE UNIQUE INDEX CONCURRENTLY tasks_unique
    ON mainspring.tasks (coalesce(group_key, ''), unique_key)
    WHERE unique_key IS NOT NULL;
