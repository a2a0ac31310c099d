-- name: insert_task
-- After the record: method, waiting_for, step_of, step_key, step_hash, reuse_hash
INSERT INTO tasks ({columns}, method, waiting_for, step_of, step_key, step_hash, reuse_hash)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: update_task
-- The operation that made the new record read the old one in the same transaction.
UPDATE tasks SET ({columns}, method) =
    (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), -- ?1 id, ?5 status
    worker = CASE WHEN ?5 = 'in_progress' THEN worker END,
    ready_at = CASE WHEN ?5 = status THEN ready_at END, -- a retry keeps its delay if the status is unchanged
    -- A retry by a person resets the counters.
    failures = CASE WHEN ?5 = status THEN failures ELSE 0 END,
    losses = CASE WHEN ?5 = status THEN losses ELSE 0 END,
    last_error = CASE WHEN ?5 = status THEN last_error END
WHERE id = ?1;

-- name: delete_task
DELETE FROM tasks WHERE id = ?;

-- name: recount_references
UPDATE tasks
SET has_references = EXISTS (
    SELECT 1 FROM tasks AS made WHERE made.original_task_id = tasks.id AND made.user_id IS tasks.user_id
)
WHERE id = ?;

-- name: mark_referenced
-- Sets the flag in a flow that was just added: copies of its tasks may have been stored before it. ?1 root
UPDATE tasks SET has_references = 1
WHERE task_tree_id = ?1
  AND EXISTS (SELECT 1 FROM tasks AS made WHERE made.original_task_id IS NOT NULL) -- evaluated once
  AND EXISTS (
    SELECT 1 FROM tasks AS made WHERE made.original_task_id = tasks.id AND made.user_id IS tasks.user_id
  );

-- name: get_task
SELECT {columns} FROM tasks WHERE id = :id AND (:everyone OR user_id IS :user_id);

-- name: get_flow
SELECT {columns} FROM tasks
WHERE task_tree_id = (SELECT task_tree_id FROM tasks WHERE id = :id) AND (:everyone OR user_id IS :user_id)
ORDER BY seq LIMIT :limit;

-- name: list_tasks
SELECT {columns} FROM tasks
WHERE (:everyone OR user_id IS :user_id)
  AND (:status IS NULL OR status = :status)
  AND (:name IS NULL OR instr(casefold(name), casefold(:name)) > 0)
  AND (:tree IS NULL OR task_tree_id = :tree)
  AND (NOT :only_roots OR parent_id IS NULL)
  AND (NOT :only_scheduled OR schedule_enabled = 1)
  AND (:with_steps OR step_of IS NULL OR (status = 'in_progress' AND instr(step_key, '?') > 0))
ORDER BY seq DESC LIMIT :limit OFFSET :offset;

-- name: count_tasks
SELECT count(*) FROM tasks
WHERE (:everyone OR user_id IS :user_id)
  AND (:status IS NULL OR status = :status)
  AND (:name IS NULL OR instr(casefold(name), casefold(:name)) > 0)
  AND (:tree IS NULL OR task_tree_id = :tree)
  AND (NOT :only_roots OR parent_id IS NULL)
  AND (NOT :only_scheduled OR schedule_enabled = 1)
  AND (:with_steps OR step_of IS NULL OR (status = 'in_progress' AND instr(step_key, '?') > 0));

-- name: last_seq
SELECT max(seq) FROM tasks;

-- name: task_owner
SELECT user_id FROM tasks WHERE id = ?;

-- name: count_by_status
SELECT status, count(*) FROM tasks
WHERE task_tree_id = :root AND (:everyone OR user_id IS :user_id) GROUP BY status;

-- name: count_waiting
-- Counts pending tasks that can never start, and other pending tasks that wait for a schedule (`weft.tasks.summary`).
WITH RECURSIVE blocked (seq) AS (
    SELECT dependents.dependent FROM tasks JOIN dependents ON dependents.dependency = tasks.seq
    WHERE tasks.task_tree_id = ?1 AND tasks.status IN ('failed', 'cancelled') AND dependents.is_required
    UNION
    SELECT dependents.dependent FROM blocked
    JOIN tasks ON tasks.seq = blocked.seq AND tasks.status = 'pending'
    JOIN dependents ON dependents.dependency = blocked.seq
),
scheduled (seq) AS (
    SELECT seq FROM tasks WHERE task_tree_id = ?1 AND status = 'pending' AND schedule_enabled = 1
    UNION
    SELECT dependents.dependent FROM scheduled
    JOIN dependents ON dependents.dependency = scheduled.seq
    JOIN tasks ON tasks.seq = dependents.dependent AND tasks.status = 'pending'
)
SELECT
    (SELECT count(*) FROM blocked JOIN tasks ON tasks.seq = blocked.seq WHERE tasks.status = 'pending'),
    (SELECT count(*) FROM scheduled WHERE seq NOT IN (SELECT seq FROM blocked));

-- name: due_schedules
-- Schedules after the given due time and id. ?1 now, ?2 limit, ?3 due time, ?4 id
SELECT id, next_run_at, params, EXISTS (
    SELECT 1 FROM tasks AS runs
    WHERE runs.original_task_id = tasks.id AND runs.origin_type = 'copy' AND runs.is_running = 1
)
FROM tasks
WHERE schedule_enabled = 1 AND next_run_at <= ?1 AND (next_run_at, id) > (?3, ?4)
ORDER BY next_run_at, id LIMIT ?2;

-- name: overdue_suspensions
-- ?1 now, ?2 limit
SELECT id FROM tasks WHERE status = 'pending' AND waiting_for > 0 AND wake_at <= ?1 ORDER BY wake_at, id LIMIT ?2;

-- name: has_unfinished_run
-- Whether a flow that was copied from the task as its root is still running. :id, :everyone, :user_id
SELECT EXISTS (
    SELECT 1 FROM tasks
    WHERE original_task_id = :id AND origin_type = 'copy' AND is_running = 1
      AND (:everyone OR user_id IS :user_id)
);
