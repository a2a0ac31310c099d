-- name: delete_task(id) set
DELETE FROM tasks WHERE id = ANY ($1::uuid[]);

-- name: recount_references(id) set
-- Does not use EXISTS, because its plan may first read all tasks into a hash table.
UPDATE tasks
SET has_references = coalesce((
    SELECT true FROM tasks AS made
    WHERE made.original_task_id = tasks.id AND made.user_id IS NOT DISTINCT FROM tasks.user_id LIMIT 1
), false)
WHERE id = ANY ($1::uuid[]);

-- name: mark_referenced(root) set
-- Sets the flag in flows that were just added: copies of their tasks may have been stored before them.
UPDATE tasks SET has_references = true
FROM tasks AS made
WHERE tasks.task_tree_id = ANY ($1::uuid[]) AND made.original_task_id = tasks.id
  AND made.user_id IS NOT DISTINCT FROM tasks.user_id;

-- name: get_tasks_of_owners(ids, everyone, user_ids)
-- Reads each task for its own owner.
SELECT {columns} FROM tasks
JOIN unnest($1::uuid[], $2::boolean[], $3::text[]) AS wanted (wanted_id, everyone, wanted_user_id)
  ON id = wanted_id AND (everyone OR user_id IS NOT DISTINCT FROM wanted_user_id);

-- name: count_waiting(root)
-- Counts pending tasks that can never start, and other pending tasks that wait for a schedule (`weft.tasks.summary`).
WITH RECURSIVE blocked (id) AS (
    SELECT dependents.task_id FROM tasks JOIN dependents ON dependents.dependency_id = tasks.id
    WHERE tasks.task_tree_id = $1::uuid AND tasks.status IN ('failed', 'cancelled') AND dependents.is_required
    UNION
    SELECT dependents.task_id FROM blocked
    JOIN tasks ON tasks.id = blocked.id AND tasks.status = 'pending'
    JOIN dependents ON dependents.dependency_id = blocked.id
),
scheduled (id) AS (
    SELECT id FROM tasks WHERE task_tree_id = $1 AND status = 'pending' AND schedule_enabled
    UNION
    SELECT dependents.task_id FROM scheduled
    JOIN dependents ON dependents.dependency_id = scheduled.id
    JOIN tasks ON tasks.id = dependents.task_id AND tasks.status = 'pending'
)
SELECT
    (SELECT count(*) FROM blocked JOIN tasks ON tasks.id = blocked.id WHERE tasks.status = 'pending') AS blocked,
    (SELECT count(*) FROM scheduled WHERE NOT EXISTS (SELECT FROM blocked WHERE blocked.id = scheduled.id))
        AS scheduled;

-- name: due_schedules(now, limit, due_at, id)
-- Schedules after the given due time and id, which are null for the first page.
SELECT id, next_run_at, params, EXISTS (
    SELECT FROM tasks AS runs
    WHERE runs.original_task_id = tasks.id AND runs.origin_type = 'copy' AND runs.is_running
) AS has_unfinished_run
FROM tasks
WHERE schedule_enabled AND next_run_at <= $1
  AND (next_run_at, id)
      > (coalesce($3, timestamptz '-infinity'), coalesce($4, uuid '00000000-0000-0000-0000-000000000000'))
ORDER BY next_run_at, id LIMIT $2;

-- name: is_large_flow(id, count)
SELECT count(*) >= $2 FROM (
    SELECT FROM tasks WHERE task_tree_id = (SELECT task_tree_id FROM tasks WHERE id = $1::uuid) LIMIT $2
) AS found;
