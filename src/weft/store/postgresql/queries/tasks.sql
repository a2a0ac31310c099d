-- name: update_task
-- The operation that made the new record read the old one in the same transaction.
UPDATE tasks SET ({columns}, method) = (
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26, $27, $28, $29, $30, $31, $32), -- $1 id, $5 status
    worker = CASE WHEN $5 = 'in_progress' THEN worker END,
    ready_at = CASE WHEN $5 = status THEN ready_at END, -- a retry keeps its delay if the status is unchanged
    -- A retry by a person resets the counters.
    failures = CASE WHEN $5 = status THEN failures ELSE 0 END,
    losses = CASE WHEN $5 = status THEN losses ELSE 0 END,
    last_error = CASE WHEN $5 = status THEN last_error END
WHERE id = $1;

-- name: delete_tasks
DELETE FROM tasks WHERE id = ANY ($1::uuid[]);

-- name: recount_references
-- Does not use EXISTS, because its plan may first read all tasks into a hash table.
UPDATE tasks
SET has_references = coalesce((
    SELECT true FROM tasks AS made
    WHERE made.original_task_id = tasks.id AND made.user_id IS NOT DISTINCT FROM tasks.user_id LIMIT 1
), false)
WHERE id = ANY ($1::uuid[]);

-- name: mark_referenced
-- Sets the flag in flows that were just added: copies of their tasks may have been stored before them. $1 roots
UPDATE tasks SET has_references = true
FROM tasks AS made
WHERE tasks.task_tree_id = ANY ($1::uuid[]) AND made.original_task_id = tasks.id
  AND made.user_id IS NOT DISTINCT FROM tasks.user_id;

-- name: get_tasks
-- Reads each task for its own owner. $1 ids, $2 everyone, $3 user_ids
SELECT {columns} FROM tasks
JOIN unnest($1::uuid[], $2::boolean[], $3::text[]) AS wanted (wanted_id, everyone, wanted_user_id)
  ON id = wanted_id AND (everyone OR user_id IS NOT DISTINCT FROM wanted_user_id);

-- name: get_flow
-- $1 id of any of its tasks, $2 everyone, $3 user_id, $4 limit
SELECT {columns} FROM tasks
WHERE task_tree_id = (SELECT task_tree_id FROM tasks WHERE id = $1)
  AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3)
ORDER BY seq LIMIT $4;

-- name: list_tasks
-- $1 everyone, $2 user_id, $3 status, $4 name, $5 tree, $6 only_roots, $7 only_scheduled, $8 with_steps, $9 limit, $10 offset
SELECT {columns} FROM tasks
WHERE ($1::boolean OR user_id IS NOT DISTINCT FROM $2)
  AND ($3::text IS NULL OR status = $3)
  AND ($4::text IS NULL OR strpos(lower(name), lower($4)) > 0)
  AND ($5::uuid IS NULL OR task_tree_id = $5)
  AND (NOT $6::boolean OR parent_id IS NULL)
  AND (NOT $7::boolean OR schedule_enabled)
  AND ($8::boolean OR step_of IS NULL OR (status = 'in_progress' AND strpos(step_key, '?') > 0))
ORDER BY seq DESC LIMIT $9 OFFSET $10;

-- name: count_tasks
-- The same parameters without limit and offset.
SELECT count(*) FROM tasks
WHERE ($1::boolean OR user_id IS NOT DISTINCT FROM $2)
  AND ($3::text IS NULL OR status = $3)
  AND ($4::text IS NULL OR strpos(lower(name), lower($4)) > 0)
  AND ($5::uuid IS NULL OR task_tree_id = $5)
  AND (NOT $6::boolean OR parent_id IS NULL)
  AND (NOT $7::boolean OR schedule_enabled)
  AND ($8::boolean OR step_of IS NULL OR (status = 'in_progress' AND strpos(step_key, '?') > 0));

-- name: taken_ids
-- The ids that are stored, with their owners; ids are unique across owners.
SELECT id, user_id FROM tasks WHERE id = ANY ($1::uuid[]);

-- name: count_by_status
-- $1 root, $2 everyone, $3 user_id
SELECT status, count(*) FROM tasks
WHERE task_tree_id = $1 AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3) GROUP BY status;

-- name: count_waiting
-- Counts pending tasks that can never start, and other pending tasks that wait for a schedule (`weft.tasks.summary`).
-- $1 root
WITH RECURSIVE blocked (id) AS (
    SELECT dependents.task_id FROM tasks JOIN dependents ON dependents.dependency_id = tasks.id
    WHERE tasks.task_tree_id = $1 AND tasks.status IN ('failed', 'cancelled') AND dependents.is_required
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

-- name: due_schedules
-- Schedules after the given due time and id, which are null for the first page. $1 now, $2 limit, $3 due time, $4 id
SELECT id, next_run_at, params, EXISTS (
    SELECT FROM tasks AS runs
    WHERE runs.original_task_id = tasks.id AND runs.origin_type = 'copy' AND runs.is_running
) AS has_unfinished_run
FROM tasks
WHERE schedule_enabled AND next_run_at <= $1
  AND (next_run_at, id)
      > (coalesce($3, timestamptz '-infinity'), coalesce($4, uuid '00000000-0000-0000-0000-000000000000'))
ORDER BY next_run_at, id LIMIT $2;

-- name: overdue_suspensions
-- $1 now, $2 limit
SELECT id FROM tasks WHERE status = 'pending' AND waiting_for > 0 AND wake_at <= $1 ORDER BY wake_at, id LIMIT $2;

-- name: with_unfinished_runs
-- The tasks that have a copied flow that is still running. $1 ids, $2 everyone, $3 user_id
SELECT original_task_id AS id FROM tasks
WHERE original_task_id = ANY ($1::uuid[]) AND origin_type = 'copy' AND is_running
  AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3);

-- name: is_large_flow
-- $1 a task, $2 a number of tasks
SELECT count(*) >= $2 FROM (
    SELECT FROM tasks WHERE task_tree_id = (SELECT task_tree_id FROM tasks WHERE id = $1) LIMIT $2
) AS found;
