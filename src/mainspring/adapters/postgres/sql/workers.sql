-- name: beat
-- $1 now or NULL, then the worker as it describes itself.
-- The first beat is the start; the register informs people and decides nothing.
INSERT INTO mainspring.workers
    (worker_id, hostname, pid, task_types, queues, lanes, slots, busy, draining, labels,
    started_at, seen_at)
SELECT $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, now, now
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) clock
ON CONFLICT (worker_id) DO UPDATE SET
    hostname = excluded.hostname, pid = excluded.pid, task_types = excluded.task_types,
    queues = excluded.queues, lanes = excluded.lanes, slots = excluded.slots, busy = excluded.busy,
    draining = excluded.draining, labels = excluded.labels, seen_at = excluded.seen_at;

-- name: leave
-- A worker that has drained is gone at once.
DELETE FROM mainspring.workers WHERE worker_id = $1;

-- name: workers
-- All of them: they are few.
SELECT worker_id, hostname, pid, task_types, queues, lanes, slots, busy, draining, labels,
    started_at, seen_at
FROM mainspring.workers
ORDER BY worker_id;

-- name: forget_workers
-- Workers that died without a word.
DELETE FROM mainspring.workers
WHERE seen_at < coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $2)
RETURNING worker_id;
