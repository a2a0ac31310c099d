-- name: insert_task
INSERT INTO tasks ({columns})
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_task
-- The operation that decided on the new record read the old one in this same transaction.
UPDATE tasks SET ({columns}) =
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), -- ?1 id, ?5 status
    lease_owner = CASE WHEN ?5 = 'in_progress' THEN lease_owner END,
    lease_until = CASE WHEN ?5 = 'in_progress' THEN lease_until END
WHERE id = ?1;

-- name: delete_task
DELETE FROM tasks WHERE id = ?;

-- name: recount_references
UPDATE tasks
SET has_references = EXISTS (SELECT 1 FROM tasks AS made WHERE made.original_task_id = tasks.id)
WHERE id = ?;

-- name: start_task
UPDATE tasks
SET status = 'in_progress', started_at = :now, updated_at = :now,
    attempt = attempt + 1, lease_owner = :worker, lease_until = :lease_until
WHERE id = :id AND status = 'pending' AND origin_type IS NOT 'archive' AND (:everyone OR user_id IS :user_id)
RETURNING attempt, task_tree_id, user_id;

-- name: report_progress
UPDATE tasks SET progress = :progress, updated_at = :now
WHERE id = :id AND status = 'in_progress' AND attempt = :attempt AND lease_owner = :worker AND user_id IS :user_id;

-- name: finish_task
UPDATE tasks
SET status = :status, result = :result, error = :error, progress = coalesce(:progress, progress),
    completed_at = :at, updated_at = :at, lease_owner = NULL, lease_until = NULL
WHERE id = :id AND status = 'in_progress' AND attempt = :attempt AND lease_owner = :worker AND user_id IS :user_id;

-- name: get_task
SELECT {columns} FROM tasks WHERE id = :id AND (:everyone OR user_id IS :user_id);

-- name: get_flow
SELECT {columns} FROM tasks
WHERE task_tree_id = (SELECT task_tree_id FROM tasks WHERE id = :id) AND (:everyone OR user_id IS :user_id)
ORDER BY seq;

-- name: list_tasks
SELECT {columns} FROM tasks
WHERE (:everyone OR user_id IS :user_id)
  AND (:status IS NULL OR status = :status)
  AND (:name IS NULL OR instr(lower(name), lower(:name)) > 0)
  AND (:tree IS NULL OR task_tree_id = :tree)
  AND (NOT :only_roots OR parent_id IS NULL)
  AND (NOT :only_scheduled OR schedule_enabled = 1)
ORDER BY seq DESC LIMIT :limit OFFSET :offset;

-- name: count_tasks
SELECT count(*) FROM tasks
WHERE (:everyone OR user_id IS :user_id)
  AND (:status IS NULL OR status = :status)
  AND (:name IS NULL OR instr(lower(name), lower(:name)) > 0)
  AND (:tree IS NULL OR task_tree_id = :tree)
  AND (NOT :only_roots OR parent_id IS NULL)
  AND (NOT :only_scheduled OR schedule_enabled = 1);

-- name: task_exists
SELECT 1 FROM tasks WHERE id = ?;
