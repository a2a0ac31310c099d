-- name: running_flows
-- Roots of flows that somebody asked to be run, oldest first. ?1 everyone, ?2 user_id
SELECT id FROM tasks WHERE is_running = 1 AND (?1 OR user_id IS ?2) ORDER BY seq;

-- name: run_flow
UPDATE tasks SET is_running = 1 WHERE id = ?1 AND parent_id IS NULL AND (?2 OR user_id IS ?3);

-- name: stop_flow
UPDATE tasks SET is_running = 0 WHERE id = ?1 AND (?2 OR user_id IS ?3);

-- name: end_flow
-- Only when nothing of it can go on by itself: nothing ready, nothing delayed, nothing in progress. A step is no
-- more under way than the task whose evaluation made it: it may wait for a person while that one rests. ?1 root
UPDATE tasks SET is_running = 0
WHERE id = ?1 AND is_running = 1
  AND NOT EXISTS (
    SELECT 1 FROM tasks AS task
    WHERE task.task_tree_id = ?1 AND task.status = 'pending' AND task.waiting_for = 0 AND task.schedule_enabled = 0
  )
  AND NOT EXISTS (SELECT 1 FROM tasks AS task WHERE task.status = 'in_progress' AND task.step_of IS NULL AND task.task_tree_id = ?1);

-- name: is_running
SELECT is_running FROM tasks WHERE id = ?1;

-- name: outlook
-- What a claim must know of a flow, in one look: whether the worker is known and the flow is to be run, whether
-- something was given back, and when the next delayed task may start. ?1 root, ?2 worker, ?3 now
SELECT
    is_running AND EXISTS (SELECT 1 FROM workers WHERE workers.id = ?2 AND workers.lease_until >= ?3),
    EXISTS (
        SELECT 1 FROM tasks
        WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NULL AND task_tree_id = ?1
    ),
    (SELECT min(ready_at) FROM tasks WHERE task_tree_id = ?1 AND status = 'pending' AND ready_at > ?3)
FROM tasks WHERE id = ?1;

-- name: given_back_tasks
-- In progress, but nobody works on them. ?1 root
SELECT {columns}, attempt, method, seq, failures, losses, last_error FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NULL AND task_tree_id = ?1
ORDER BY priority, seq;

-- name: ready_methods
-- The methods of the flow's ready tasks: one look-up in the index for each, however many tasks there are.
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
-- Again, too: the answer to the first time may have been lost.
INSERT INTO workers (id, lease_until, methods) VALUES (?1, ?2, ?3)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, methods = excluded.methods;

-- name: remove_worker
DELETE FROM workers WHERE id = ?1;

-- name: list_workers
SELECT id FROM workers ORDER BY id;

-- name: has_other_workers
-- Those that may know a method. ?1 worker, ?2 now, ?3 method
SELECT EXISTS (
    SELECT 1 FROM workers WHERE id <> ?1 AND lease_until >= ?2
      AND (methods IS NULL OR EXISTS (SELECT 1 FROM json_each(methods) WHERE value = ?3))
);

-- name: restart_delays
-- A delay that began in the future: the clock was put back since. ?1 now
UPDATE tasks SET ready_at = ?1 + (ready_at - updated_at), updated_at = ?1
WHERE status = 'pending' AND ready_at IS NOT NULL AND updated_at > ?1
RETURNING id, task_tree_id, user_id, attempt, ready_at;

-- name: shorten_leases
-- ?1 when a lease ends that begins now
UPDATE workers SET lease_until = ?1 WHERE lease_until > ?1;

-- name: dead_workers
-- Also those that claimed tasks after they were taken for dead: no lease covers these claims.
-- ?1 the time by which a lease has run out, or null
SELECT id FROM workers WHERE lease_until < ?1
UNION
SELECT worker FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NOT NULL
  AND worker NOT IN (SELECT id FROM workers);

-- name: tasks_of_worker
SELECT id, task_tree_id, user_id, attempt FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker = ?1;

-- name: give_back_all
-- ?1 worker, ?2 now, ?3 what it adds to the lost attempts: 1 when the worker died, 0 when it left in good order
UPDATE tasks SET worker = NULL, updated_at = ?2, losses = losses + ?3
WHERE status = 'in_progress' AND step_of IS NULL AND worker = ?1;
