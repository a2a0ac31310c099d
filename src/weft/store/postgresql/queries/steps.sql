-- name: holds_run
-- Whether the attempt at a task that is evaluated still holds. $1 id, $2 attempt
SELECT EXISTS (
    SELECT FROM tasks WHERE id = $1 AND status || '' = 'in_progress' AND attempt = $2 AND worker IS NOT NULL
);

-- name: update_step
-- Not one that has ended for good meanwhile: somebody cancelled it. Unless that was too late.
UPDATE tasks
SET status = $3, result = $4, error = $5, progress = $6, params = $7, started_at = $8, completed_at = $9,
    updated_at = $10, origin_type = $11, original_task_id = $12, step_hash = $13, reuse_hash = $14
WHERE id = $1 AND step_of = $2 AND status <> 'completed' AND (status <> 'cancelled' OR $15)
RETURNING id;

-- name: mark_step
UPDATE tasks SET params = $1, reuse_hash = NULL WHERE id = $2 AND step_of = $3;

-- name: mark_parents
UPDATE tasks SET has_children = true WHERE id = ANY ($1::uuid[]) AND NOT has_children;

-- name: mark_reused
UPDATE tasks SET has_references = true WHERE id = ANY ($1::uuid[]) AND NOT has_references;

-- name: steps_of
-- Not those that came with a flow as a copy of what another run has done.
SELECT {columns}, step_key, step_hash FROM tasks WHERE step_of = $1 AND step_hash IS NOT NULL ORDER BY seq;

-- name: digests_of_flow
-- $1 root
SELECT id, step_hash, reuse_hash FROM tasks WHERE task_tree_id = $1 AND step_hash IS NOT NULL;

-- name: reusable_steps
-- Those of the latest run first, each run's in the order in which they were asked. $1 hash, $2 user_id, $3 the
-- flow whose own do not count
SELECT step.id FROM tasks AS step LEFT JOIN tasks AS root ON root.id = step.task_tree_id
WHERE step.reuse_hash = $1 AND step.status = 'completed' AND step.user_id IS NOT DISTINCT FROM $2
  AND step.origin_type IS DISTINCT FROM 'archive' AND step.task_tree_id IS DISTINCT FROM $3
ORDER BY root.seq DESC NULLS LAST, step.created_at, step.seq LIMIT 10000;

-- name: find_step
SELECT {columns} FROM tasks WHERE id = $1;
