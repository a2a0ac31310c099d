-- name: delete_task(id)
DELETE FROM tasks WHERE id = :id;

-- name: recount_references(id)
UPDATE tasks
SET has_references = EXISTS (
    SELECT 1 FROM tasks AS made WHERE made.original_task_id = tasks.id AND made.user_id IS tasks.user_id
)
WHERE id = :id;

-- name: mark_referenced(root)
-- Sets the flag in a flow that was just added: copies of its tasks may have been stored before it.
UPDATE tasks SET has_references = 1
WHERE task_tree_id = :root
  AND EXISTS (SELECT 1 FROM tasks AS made WHERE made.original_task_id IS NOT NULL) -- evaluated once
  AND EXISTS (
    SELECT 1 FROM tasks AS made WHERE made.original_task_id = tasks.id AND made.user_id IS tasks.user_id
  );

-- name: insert_event(type, task_id, task_tree_id, user_id, at, facts)
INSERT INTO events (type, task_id, task_tree_id, user_id, at, facts)
VALUES (:type, :task_id, :task_tree_id, :user_id, :at, :facts);

-- name: last_seq()
SELECT max(seq) FROM tasks;

-- name: count_rows()
SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM events);

-- name: count_waiting(root)
-- Counts pending tasks that can never start, and other pending tasks that wait for a schedule (`weft.tasks.summary`).
WITH RECURSIVE blocked (seq) AS (
    SELECT dependents.dependent FROM tasks JOIN dependents ON dependents.dependency = tasks.seq
    WHERE tasks.task_tree_id = :root AND tasks.status IN ('failed', 'cancelled') AND dependents.is_required
    UNION
    SELECT dependents.dependent FROM blocked
    JOIN tasks ON tasks.seq = blocked.seq AND tasks.status = 'pending'
    JOIN dependents ON dependents.dependency = blocked.seq
),
scheduled (seq) AS (
    SELECT seq FROM tasks WHERE task_tree_id = :root AND status = 'pending' AND schedule_enabled = 1
    UNION
    SELECT dependents.dependent FROM scheduled
    JOIN dependents ON dependents.dependency = scheduled.seq
    JOIN tasks ON tasks.seq = dependents.dependent AND tasks.status = 'pending'
)
SELECT
    (SELECT count(*) FROM blocked JOIN tasks ON tasks.seq = blocked.seq WHERE tasks.status = 'pending'),
    (SELECT count(*) FROM scheduled WHERE seq NOT IN (SELECT seq FROM blocked));

-- name: due_schedules(now, limit, due_at, id)
-- Schedules after the given due time and id, which are null for the first page.
SELECT id, next_run_at, params, EXISTS (
    SELECT 1 FROM tasks AS runs
    WHERE runs.original_task_id = tasks.id AND runs.origin_type = 'copy' AND runs.is_running = 1
)
FROM tasks
WHERE schedule_enabled = 1 AND next_run_at <= :now
  AND (next_run_at, id) > (coalesce(:due_at, -9223372036854775808), coalesce(:id, ''))
ORDER BY next_run_at, id LIMIT :limit;
