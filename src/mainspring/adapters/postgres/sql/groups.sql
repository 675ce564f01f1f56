-- name: admit
-- Lets those of the tasks that are held wait to be claimed whose group has its turn and that the limits
-- leave room for. All of it is one function, which looks several times: only after a gate is locked
-- nobody else adds to what is counted.
-- $1 now or NULL, $2 how many of each priority may wait, $3 task types, $4 queues or NULL, $5 labels that
-- the worker offers, $6-$8 priority, youngest and oldest age of what it takes, $9 and $10 queues and group
-- keys of which something ended.
SELECT a.queue, a.admitted, a.since, a.rated, a.wait
FROM mainspring.admit_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) a;
