-- Statements that both databases understand; `weft.store.sql` translates them. The statements with their own text in
-- each dialect have the same parameters in the same order.

-- Conditions use `status || ''` where PostgreSQL's planner must use the index of ids, and not the index of tasks in
-- progress: with that one it would scan all tasks of a worker for each id.

-- name: suspend_task(id, attempt, worker, user_id, now, wake_at)
-- Ends an attempt without an outcome.
UPDATE tasks
SET status = 'pending', started_at = NULL, progress = 0.0, updated_at = :now, worker = NULL, ready_at = NULL,
    losses = 0, wake_at = :wake_at
WHERE id = :id::uuid AND status || '' = 'in_progress' AND attempt = :attempt AND worker = :worker
  AND user_id IS NOT DISTINCT FROM :user_id
RETURNING id;

-- name: has_ended(ids)
-- Whether at least one of the tasks has ended.
SELECT EXISTS (
    SELECT 1 FROM tasks WHERE id = ANY (:ids::uuid[]) AND status NOT IN ('pending', 'in_progress')
);

-- name: set_dependencies(id, dependencies)
UPDATE tasks SET dependencies = :dependencies WHERE id = :id::uuid;

-- name: restart_delays(now)
-- Delays that began in the future, because the clock was set back since.
UPDATE tasks SET ready_at = :now + (ready_at - updated_at), updated_at = :now
WHERE status = 'pending' AND ready_at IS NOT NULL AND updated_at > :now
RETURNING id, attempt, task_tree_id, user_id, ready_at;

-- name: update_params(id, attempt, params, now)
UPDATE tasks SET params = :params, updated_at = :now
WHERE id = :id::uuid AND status || '' = 'in_progress' AND attempt = :attempt AND worker IS NOT NULL
RETURNING id;
