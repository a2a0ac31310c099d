-- name: end_open_steps(task_id, at, error)
-- Ends the open steps of a task that has ended. An open step has no outcome; its hash is removed, so that a later
-- attempt does not replay the step but performs it again.
UPDATE tasks
SET status = 'cancelled', error = :error, completed_at = :at, updated_at = :at, step_hash = NULL
WHERE step_of = :task_id AND status = 'in_progress'
RETURNING step_of, id, seq, task_tree_id, user_id;
