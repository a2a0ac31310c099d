-- name: running_flows
-- Roots of the flows that are marked to be run, oldest first. ?1 everyone, ?2 user_id
SELECT id FROM tasks WHERE is_running = 1 AND (?1 OR user_id IS ?2) ORDER BY seq;

-- name: run_flow
UPDATE tasks SET is_running = 1 WHERE id = ?1 AND parent_id IS NULL AND (?2 OR user_id IS ?3);

-- name: stop_flow
UPDATE tasks SET is_running = 0 WHERE id = ?1 AND (?2 OR user_id IS ?3);

-- name: end_flow
-- Only if no task of the flow is ready, delayed or in progress. Steps do not count: a step may wait for a person while
-- the task that made it is suspended. ?1 root
UPDATE tasks SET is_running = 0
WHERE id = ?1 AND is_running = 1
  AND NOT EXISTS (
    SELECT 1 FROM tasks AS task
    WHERE task.task_tree_id = ?1 AND task.status = 'pending' AND task.waiting_for = 0 AND task.schedule_enabled = 0
  )
  AND NOT EXISTS (SELECT 1 FROM tasks AS task WHERE task.status = 'in_progress' AND task.step_of IS NULL AND task.task_tree_id = ?1);

-- name: is_running
SELECT is_running FROM tasks WHERE id = ?1;

-- name: flow_state
-- What a claim must know of a flow, in one query: whether the worker is live and the flow is to be run, whether
-- the flow has released tasks, and when its next delayed task can start. ?1 root, ?2 worker, ?3 now
SELECT
    is_running AND EXISTS (SELECT 1 FROM workers WHERE workers.id = ?2 AND workers.lease_until >= ?3),
    EXISTS (
        SELECT 1 FROM tasks
        WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NULL AND task_tree_id = ?1
    ),
    (SELECT min(ready_at) FROM tasks WHERE task_tree_id = ?1 AND status = 'pending' AND ready_at > ?3)
FROM tasks WHERE id = ?1;

-- name: released_tasks
-- Tasks in progress that no worker holds. ?1 root
SELECT {columns}, attempt, method, seq, failures, losses, last_error FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NULL AND task_tree_id = ?1
ORDER BY priority, seq;

-- name: ready_methods
-- The methods of the flow's ready tasks: one index lookup per method, however many tasks there are.
WITH RECURSIVE methods (method) AS (
    SELECT min(method) FROM tasks
    WHERE task_tree_id = ?1 AND status = 'pending' AND waiting_for = 0 AND schedule_enabled = 0
    UNION ALL
    SELECT (
        SELECT min(task.method) FROM tasks AS task
        WHERE task.task_tree_id = ?1 AND task.method > methods.method
          AND task.status = 'pending' AND task.waiting_for = 0 AND task.schedule_enabled = 0
    ) FROM methods WHERE methods.method IS NOT NULL
)
SELECT method FROM methods WHERE method IS NOT NULL;

-- name: ready_tasks
-- ?1 root, ?2 method, ?3 now, ?4 limit
SELECT {columns}, attempt, method, seq, failures, losses, last_error FROM tasks
WHERE task_tree_id = ?1 AND method = ?2 AND status = 'pending' AND waiting_for = 0 AND schedule_enabled = 0
  AND (ready_at IS NULL OR ready_at <= ?3)
ORDER BY priority, seq LIMIT ?4;

-- name: renew_worker
-- ?1 id, ?2 lease_until
UPDATE workers SET lease_until = ?2 WHERE id = ?1;

-- name: add_worker
-- May be repeated, because the reply to the first call may have been lost.
INSERT INTO workers (id, lease_until, methods) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, methods = excluded.methods;

-- name: remove_worker
DELETE FROM workers WHERE id = ?1;

-- name: list_workers
SELECT id FROM workers ORDER BY id;

-- name: has_other_workers
-- Whether another live worker may know the method. ?1 worker, ?2 now, ?3 method
SELECT EXISTS (
    SELECT 1 FROM workers WHERE id <> ?1 AND lease_until >= ?2
      AND (methods IS NULL OR EXISTS (SELECT 1 FROM json_each(methods) WHERE value = ?3))
);

-- name: restart_delays
-- Delays that began in the future, because the clock was set back since. ?1 now
UPDATE tasks SET ready_at = ?1 + (ready_at - updated_at), updated_at = ?1
WHERE status = 'pending' AND ready_at IS NOT NULL AND updated_at > ?1
RETURNING id, task_tree_id, user_id, attempt, ready_at;

-- name: shorten_leases
-- ?1 the end of a lease that begins now
UPDATE workers SET lease_until = ?1 WHERE lease_until > ?1;

-- name: dead_workers
-- Includes workers that claimed tasks after they were declared dead: no lease covers those claims.
-- ?1 the time before which a lease has expired, or null
SELECT id FROM workers WHERE lease_until < ?1
UNION
SELECT worker FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NOT NULL
  AND worker NOT IN (SELECT id FROM workers);

-- name: tasks_of_worker
SELECT id, task_tree_id, user_id, attempt FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker = ?1;

-- name: release_all
-- ?1 worker, ?2 now, ?3 how many lost attempts to add: 1 if the worker died, 0 if it shut down
UPDATE tasks SET worker = NULL, updated_at = ?2, losses = losses + ?3
WHERE status = 'in_progress' AND step_of IS NULL AND worker = ?1;
