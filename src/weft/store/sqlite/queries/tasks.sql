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
SET has_references = EXISTS (
    SELECT 1 FROM tasks AS made WHERE made.original_task_id = tasks.id AND made.user_id IS tasks.user_id
)
WHERE id = ?;

-- name: start_task
-- ?1 now, ?2 worker, ?3 lease_until, ?4 id, ?5 everyone, ?6 user_id
UPDATE tasks
SET status = 'in_progress', started_at = ?1, updated_at = ?1,
    attempt = attempt + 1, lease_owner = ?2, lease_until = ?3
WHERE id = ?4 AND status = 'pending' AND origin_type IS NOT 'archive' AND (?5 OR user_id IS ?6)
RETURNING attempt, task_tree_id, user_id;

-- name: report_progress
-- ?1 progress, ?2 now, ?3 id, ?4 attempt, ?5 worker, ?6 user_id
UPDATE tasks SET progress = ?1, updated_at = ?2
WHERE id = ?3 AND status = 'in_progress' AND attempt = ?4 AND lease_owner = ?5 AND user_id IS ?6;

-- name: finish_task
-- ?1 status, ?2 result, ?3 error, ?4 progress, ?5 at, ?6 id, ?7 attempt, ?8 worker, ?9 user_id
UPDATE tasks
SET status = ?1, result = ?2, error = ?3, progress = coalesce(?4, progress),
    completed_at = ?5, updated_at = ?5, lease_owner = NULL, lease_until = NULL
WHERE id = ?6 AND status = 'in_progress' AND attempt = ?7 AND lease_owner = ?8 AND user_id IS ?9;

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
