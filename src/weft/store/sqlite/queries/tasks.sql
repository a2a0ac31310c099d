-- name: insert_task
-- After the record: method, waiting_for
INSERT INTO tasks ({columns}, method, waiting_for)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_task
-- The operation that decided on the new record read the old one in this same transaction.
UPDATE tasks SET ({columns}, method) =
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), -- ?1 id, ?5 status
    worker = CASE WHEN ?5 = 'in_progress' THEN worker END,
    ready_at = CASE WHEN ?5 = status THEN ready_at END -- a retry goes on waiting, whatever else changes
WHERE id = ?1;

-- name: delete_task
DELETE FROM tasks WHERE id = ?;

-- name: recount_references
UPDATE tasks
SET has_references = EXISTS (SELECT 1 FROM tasks AS made WHERE made.original_task_id = tasks.id)
WHERE id = ?;

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
