-- name: holds_run
-- Whether the attempt at a program task is still held. ?1 id, ?2 attempt
SELECT 1 FROM tasks WHERE id = ?1 AND status = 'in_progress' AND attempt = ?2 AND worker IS NOT NULL;

-- name: insert_step
-- After the record: method, waiting_for, step_of, step_key, step_hash, reuse_hash
INSERT INTO tasks ({columns}, method, waiting_for, step_of, step_key, step_hash, reuse_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
        ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_step
-- Skips a step that somebody cancelled meanwhile, unless the cancellation came too late.
UPDATE tasks
SET status = :status, result = :result, error = :error, progress = :progress, params = :params,
    started_at = :started_at, completed_at = :completed_at, updated_at = :updated_at,
    origin_type = :origin_type, original_task_id = :original_task_id,
    step_hash = :step_hash, reuse_hash = :reuse_hash
WHERE id = :id AND step_of = :step_of AND status <> 'completed' AND (status <> 'cancelled' OR :is_outcome_used)
RETURNING seq;

-- name: mark_step
-- ?1 params, ?2 id, ?3 step_of
UPDATE tasks SET params = ?1, reuse_hash = NULL WHERE id = ?2 AND step_of = ?3;

-- name: mark_parent
UPDATE tasks SET has_children = 1 WHERE id = ?1 AND NOT has_children;

-- name: mark_reused
UPDATE tasks SET has_references = 1 WHERE id = ?1 AND NOT has_references;

-- name: end_open_steps
-- Ends the open steps of a task that has ended. An open step has no outcome; its hash is removed, so that a later
-- attempt does not replay the step but performs it again. ?1 task, ?2 error, ?3 at
UPDATE tasks
SET status = 'cancelled', error = ?2, completed_at = ?3, updated_at = ?3, step_hash = NULL
WHERE step_of = ?1 AND status = 'in_progress'
RETURNING seq, id, task_tree_id, user_id;

-- name: end_steps_below
-- Ends the open steps below a step that has ended. Their keys begin with its key and one of three separators, and
-- each of the three prefixes is a range of the index. ?1 task, ?2 error, ?3 at, ?4 key of the step
WITH signs (sign, next) AS (VALUES ('/', '0'), ('#', '$'), ('?', '@'))
UPDATE tasks
SET status = 'cancelled', error = ?2, completed_at = ?3, updated_at = ?3, step_hash = NULL
WHERE seq IN (
    SELECT below.seq FROM signs CROSS JOIN tasks AS below
    WHERE below.step_of = ?1 AND below.status = 'in_progress'
      AND below.step_key >= ?4 || signs.sign AND below.step_key < ?4 || signs.next
)
RETURNING seq, id, task_tree_id, user_id;

-- name: steps_of
-- Excludes steps that were archived or imported without digests, and steps that were ended with their run.
SELECT {columns}, step_key, step_hash FROM tasks WHERE step_of = ?1 AND step_hash IS NOT NULL ORDER BY seq;

-- name: digests_of_flow
-- ?1 root
SELECT id, step_hash, reuse_hash FROM tasks WHERE task_tree_id = ?1 AND step_hash IS NOT NULL;

-- name: reusable_steps
-- The latest run first; the steps of a run in the order of their requests. ?1 hash, ?2 user_id, ?3 the flow to exclude
SELECT step.id FROM tasks AS step LEFT JOIN tasks AS root ON root.id = step.task_tree_id
WHERE step.reuse_hash = ?1 AND step.status = 'completed' AND step.user_id IS ?2
  AND step.origin_type IS NOT 'archive' AND step.task_tree_id IS NOT ?3
ORDER BY root.seq DESC, step.created_at, step.seq LIMIT 10000;

-- name: find_step
SELECT {columns} FROM tasks WHERE id = ?1;
