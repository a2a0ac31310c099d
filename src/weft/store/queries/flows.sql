-- name: running_flows(everyone, user_id)
-- Roots of the flows that are marked to be run, oldest first.
SELECT id FROM tasks
WHERE is_running = {true} AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id) ORDER BY seq;

-- name: run_flow(root, everyone, user_id)
UPDATE tasks SET is_running = {true}
WHERE id = :root::uuid AND parent_id IS NULL AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
RETURNING id;

-- name: stop_flow(root, everyone, user_id)
UPDATE tasks SET is_running = {false}
WHERE id = :root::uuid AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
RETURNING id;

-- name: end_flow(root)
-- Only if no task of the flow is ready, delayed or in progress. Steps do not count: a step may wait for a person while
-- the task that made it is suspended.
UPDATE tasks SET is_running = {false}
WHERE id = :root::uuid AND is_running = {true}
  AND NOT EXISTS (
    SELECT 1 FROM tasks AS task
    WHERE task.task_tree_id = :root AND task.status = 'pending' AND task.waiting_for = 0
      AND task.schedule_enabled = {false}
  )
  AND NOT EXISTS (
    SELECT 1 FROM tasks AS task
    WHERE task.status = 'in_progress' AND task.step_of IS NULL AND task.task_tree_id = :root
  );

-- name: is_running(root)
SELECT is_running FROM tasks WHERE id = :root::uuid;

-- name: overdue_suspensions(now, limit)
SELECT id FROM tasks
WHERE status = 'pending' AND waiting_for > 0 AND wake_at <= :now ORDER BY wake_at, id LIMIT :limit;
