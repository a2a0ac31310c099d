-- name: insert_task({columns}, method, waiting_for, step_of, step_key, step_hash, reuse_hash)
INSERT INTO tasks ({columns}, method, waiting_for, step_of, step_key, step_hash, reuse_hash)
VALUES ({values}, :method, :waiting_for, :step_of, :step_key, :step_hash, :reuse_hash);

-- name: update_task({columns}, method)
-- The operation that made the new record read the old one in the same transaction.
UPDATE tasks SET ({columns}, method) = ({values}, :method),
    worker = CASE WHEN :status = 'in_progress' THEN worker END,
    ready_at = CASE WHEN :status = status THEN ready_at END, -- a retry keeps its delay if the status is unchanged
    -- A retry by a person resets the counters.
    failures = CASE WHEN :status = status THEN failures ELSE 0 END,
    losses = CASE WHEN :status = status THEN losses ELSE 0 END,
    last_error = CASE WHEN :status = status THEN last_error END
WHERE id = :id;

-- name: get_tasks(ids, everyone, user_id)
SELECT {columns} FROM tasks
WHERE id = ANY (:ids::uuid[]) AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id);

-- name: find_by_prefix(first, last, everyone, user_id, limit)
SELECT {columns} FROM tasks
WHERE id BETWEEN :first::uuid AND :last::uuid AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
ORDER BY seq DESC LIMIT :limit;

-- name: get_flow(id, everyone, user_id, limit)
-- The flow of any of its tasks.
SELECT {columns} FROM tasks
WHERE task_tree_id = (SELECT task_tree_id FROM tasks WHERE id = :id::uuid)
  AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
ORDER BY seq LIMIT :limit;

-- name: list_tasks(everyone, user_id, status, name, tree, only_roots, only_scheduled, with_steps, limit, offset)
SELECT {columns} FROM tasks
WHERE (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
  AND (:status::text IS NULL OR status = :status)
  AND (:name::text IS NULL OR {position}({fold}(name), {fold}(:name)) > 0)
  AND (:tree::uuid IS NULL OR task_tree_id = :tree)
  AND (NOT :only_roots::boolean OR parent_id IS NULL)
  AND (NOT :only_scheduled::boolean OR schedule_enabled = {true})
  AND (:with_steps::boolean OR step_of IS NULL OR (status = 'in_progress' AND {position}(step_key, '?') > 0))
ORDER BY seq DESC LIMIT :limit OFFSET :offset;

-- name: count_tasks(everyone, user_id, status, name, tree, only_roots, only_scheduled, with_steps)
-- The same parameters without limit and offset.
SELECT count(*) FROM tasks
WHERE (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
  AND (:status::text IS NULL OR status = :status)
  AND (:name::text IS NULL OR {position}({fold}(name), {fold}(:name)) > 0)
  AND (:tree::uuid IS NULL OR task_tree_id = :tree)
  AND (NOT :only_roots::boolean OR parent_id IS NULL)
  AND (NOT :only_scheduled::boolean OR schedule_enabled = {true})
  AND (:with_steps::boolean OR step_of IS NULL OR (status = 'in_progress' AND {position}(step_key, '?') > 0));

-- name: taken_ids(ids)
-- The ids that are stored, with their owners; ids are unique across owners.
SELECT id, user_id FROM tasks WHERE id = ANY (:ids::uuid[]);

-- name: count_by_status(root, everyone, user_id)
SELECT status, count(*) FROM tasks
WHERE task_tree_id = :root::uuid AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id) GROUP BY status;

-- name: unfinished_runs(ids, everyone, user_id)
-- The tasks that have a copied flow that is still running.
SELECT original_task_id FROM tasks
WHERE original_task_id = ANY (:ids::uuid[]) AND origin_type = 'copy' AND is_running = {true}
  AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id);

-- name: list_events(after, everyone, user_id, tree, task, limit)
SELECT seq, type, task_id, task_tree_id, user_id, at, facts FROM events
WHERE seq > :after
  AND (:everyone::boolean OR user_id IS NOT DISTINCT FROM :user_id)
  AND (:tree::uuid IS NULL OR task_tree_id = :tree)
  AND (:task::uuid IS NULL OR task_id = :task)
ORDER BY seq LIMIT :limit;
