-- name: holds_run(id, attempt)
-- Whether the attempt at a program task is still held.
SELECT 1 FROM tasks
WHERE id = :id::uuid AND status || '' = 'in_progress' AND attempt = :attempt AND worker IS NOT NULL;

-- name: update_step(id, step_of, status, result, error, progress, params, started_at, completed_at, updated_at, origin_type, original_task_id, step_hash, reuse_hash, is_outcome_used)
-- Skips a step that somebody cancelled meanwhile, unless the cancellation came too late.
UPDATE tasks
SET status = :status, result = :result, error = :error, progress = :progress, params = :params,
    started_at = :started_at, completed_at = :completed_at, updated_at = :updated_at, origin_type = :origin_type,
    original_task_id = :original_task_id, step_hash = :step_hash, reuse_hash = :reuse_hash
WHERE id = :id::uuid AND step_of = :step_of AND status <> 'completed'
  AND (status <> 'cancelled' OR :is_outcome_used::boolean)
RETURNING seq;

-- name: mark_step(id, step_of, params)
UPDATE tasks SET params = :params, reuse_hash = NULL WHERE id = :id::uuid AND step_of = :step_of;

-- name: mark_parents(ids)
UPDATE tasks SET has_children = {true} WHERE id = ANY (:ids::uuid[]) AND NOT has_children;

-- name: mark_reused(ids)
UPDATE tasks SET has_references = {true} WHERE id = ANY (:ids::uuid[]) AND NOT has_references;

-- name: end_steps_below(task_id, key, at, error)
-- Ends the open steps below a step that has ended. Their keys begin with its key and one of three separators, and
-- each of the three prefixes is a range of the index.
WITH signs (sign, next) AS (VALUES ('/', '0'), ('#', '$'), ('?', '@'))
UPDATE tasks
SET status = 'cancelled', error = :error, completed_at = :at, updated_at = :at, step_hash = NULL
FROM signs
WHERE step_of = :task_id::uuid AND status = 'in_progress'
  AND step_key COLLATE "C" >= :key::text || sign AND step_key COLLATE "C" < :key::text || next
RETURNING step_of, id, seq, task_tree_id, user_id;

-- name: steps_of(id)
-- Excludes steps that were archived or imported without digests, and steps that were ended with their run.
SELECT {columns}, step_key, step_hash FROM tasks
WHERE step_of = :id::uuid AND step_hash IS NOT NULL ORDER BY seq;

-- name: digests_of_flow(root)
SELECT id, step_hash, reuse_hash FROM tasks WHERE task_tree_id = :root::uuid AND step_hash IS NOT NULL;

-- name: reusable_steps(hash, user_id, besides)
-- The latest run first; the steps of a run in the order of their requests; `besides` is the flow to exclude.
SELECT step.id FROM tasks AS step LEFT JOIN tasks AS root ON root.id = step.task_tree_id
WHERE step.reuse_hash = :hash AND step.status = 'completed' AND step.user_id IS NOT DISTINCT FROM :user_id
  AND step.origin_type IS DISTINCT FROM 'archive' AND step.task_tree_id IS DISTINCT FROM :besides
ORDER BY root.seq DESC NULLS LAST, step.created_at, step.seq LIMIT 10000;

-- name: find_step(id)
SELECT {columns} FROM tasks WHERE id = :id::uuid;
