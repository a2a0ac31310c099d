-- name: flow_state(root, worker, now)
-- What a claim must know of a flow, in one query: whether the worker is live and the flow is to be run, whether
-- the flow has released tasks, and when its next delayed task can start.
SELECT
    is_running AND EXISTS (SELECT 1 FROM workers WHERE workers.id = :worker AND workers.lease_until >= :now),
    EXISTS (
        SELECT 1 FROM tasks
        WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NULL AND task_tree_id = :root
    ),
    (SELECT min(ready_at) FROM tasks WHERE task_tree_id = :root AND status = 'pending' AND ready_at > :now)
FROM tasks WHERE id = :root;

-- name: released_tasks(root)
-- Tasks in progress that no worker holds.
SELECT {columns}, attempt, method, seq, failures, losses, last_error FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NULL AND task_tree_id = :root
ORDER BY priority, seq;

-- name: ready_methods(root)
-- The methods of the flow's ready tasks: one index lookup per method, however many tasks there are.
WITH RECURSIVE methods (method) AS (
    SELECT min(method) FROM tasks
    WHERE task_tree_id = :root AND status = 'pending' AND waiting_for = 0 AND schedule_enabled = 0
    UNION ALL
    SELECT (
        SELECT min(task.method) FROM tasks AS task
        WHERE task.task_tree_id = :root AND task.method > methods.method
          AND task.status = 'pending' AND task.waiting_for = 0 AND task.schedule_enabled = 0
    ) FROM methods WHERE methods.method IS NOT NULL
)
SELECT method FROM methods WHERE method IS NOT NULL;

-- name: ready_tasks(root, method, now, limit)
SELECT {columns}, attempt, method, seq, failures, losses, last_error FROM tasks
WHERE task_tree_id = :root AND method = :method AND status = 'pending' AND waiting_for = 0 AND schedule_enabled = 0
  AND (ready_at IS NULL OR ready_at <= :now)
ORDER BY priority, seq LIMIT :limit;

-- name: has_other_workers(worker, now, method)
-- Whether another live worker may know the method.
SELECT EXISTS (
    SELECT 1 FROM workers WHERE id <> :worker AND lease_until >= :now
      AND (methods IS NULL OR EXISTS (SELECT 1 FROM json_each(methods) WHERE value = :method))
);

-- name: add_worker(worker, lease_until, methods)
-- May be repeated, because the reply to the first call may have been lost.
INSERT INTO workers (id, lease_until, methods) VALUES (:worker, :lease_until, :methods)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, methods = excluded.methods;

-- name: renew_worker(worker, lease_until)
UPDATE workers SET lease_until = :lease_until WHERE id = :worker RETURNING id;

-- name: expired_workers(expired_at)
SELECT id FROM workers WHERE lease_until < :expired_at;
