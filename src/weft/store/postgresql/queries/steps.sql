-- name: end_open_steps(task_id, at, error) set
-- Ends the open steps of tasks that have ended. An open step has no outcome; its hash is removed, so that a later
-- attempt does not replay the step but performs it again.
UPDATE tasks
SET status = 'cancelled', error = ended.error, completed_at = ended.at, updated_at = ended.at, step_hash = NULL
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[]) AS ended (id, at, error)
WHERE tasks.step_of = ended.id AND tasks.status = 'in_progress'
RETURNING tasks.step_of, tasks.id, tasks.seq, tasks.task_tree_id, tasks.user_id;
