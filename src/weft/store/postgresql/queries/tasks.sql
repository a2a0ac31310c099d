-- name: update_task
-- The operation that decided on the new record read the old one in this same transaction.
UPDATE tasks SET ({columns}) = (
        $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26, $27, $28, $29, $30, $31), -- $1 id, $5 status
    lease_owner = CASE WHEN $5 = 'in_progress' THEN lease_owner END,
    lease_until = CASE WHEN $5 = 'in_progress' THEN lease_until END
WHERE id = $1;

-- name: delete_tasks
DELETE FROM tasks WHERE id = ANY ($1::uuid[]);

-- name: recount_references
UPDATE tasks
SET has_references = EXISTS (
    SELECT FROM tasks AS made
    WHERE made.original_task_id = tasks.id AND made.user_id IS NOT DISTINCT FROM tasks.user_id
)
WHERE id = ANY ($1::uuid[]);

-- name: start_tasks
UPDATE tasks
SET status = 'in_progress', started_at = wanted.now, updated_at = wanted.now,
    attempt = tasks.attempt + 1, lease_owner = wanted.worker, lease_until = wanted.lease_until
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::boolean[], $6::text[])
    AS wanted (id, worker, now, lease_until, everyone, user_id)
WHERE tasks.id = wanted.id AND tasks.status = 'pending' AND tasks.origin_type IS DISTINCT FROM 'archive'
  AND (wanted.everyone OR tasks.user_id IS NOT DISTINCT FROM wanted.user_id)
RETURNING tasks.id, tasks.attempt, tasks.task_tree_id, tasks.user_id;

-- name: report_progress
UPDATE tasks SET progress = wanted.progress, updated_at = wanted.now
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::double precision[], $6::timestamptz[])
    AS wanted (id, attempt, worker, user_id, progress, now)
WHERE tasks.id = wanted.id AND tasks.status = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.lease_owner = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: finish_tasks
UPDATE tasks
SET status = wanted.status, result = wanted.result, error = wanted.error,
    progress = coalesce(wanted.progress, tasks.progress),
    completed_at = wanted.at, updated_at = wanted.at, lease_owner = NULL, lease_until = NULL
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[],
            $5::text[], $6::text[], $7::text[], $8::double precision[], $9::timestamptz[])
    AS wanted (id, attempt, worker, user_id, status, result, error, progress, at)
WHERE tasks.id = wanted.id AND tasks.status = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.lease_owner = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: get_tasks
-- Each of several tasks on behalf of its own owner. $1 ids, $2 everyone, $3 user_ids
SELECT {columns} FROM tasks
JOIN unnest($1::uuid[], $2::boolean[], $3::text[]) AS wanted (wanted_id, everyone, wanted_user_id)
  ON id = wanted_id AND (everyone OR user_id IS NOT DISTINCT FROM wanted_user_id);

-- name: get_flow
-- $1 id of any of its tasks, $2 everyone, $3 user_id
SELECT {columns} FROM tasks
WHERE task_tree_id = (SELECT task_tree_id FROM tasks WHERE id = $1)
  AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3)
ORDER BY seq;

-- name: list_tasks
-- $1 everyone, $2 user_id, $3 status, $4 name, $5 tree, $6 only_roots, $7 only_scheduled, $8 limit, $9 offset
SELECT {columns} FROM tasks
WHERE ($1::boolean OR user_id IS NOT DISTINCT FROM $2)
  AND ($3::text IS NULL OR status = $3)
  AND ($4::text IS NULL OR strpos(lower(name), lower($4)) > 0)
  AND ($5::uuid IS NULL OR task_tree_id = $5)
  AND (NOT $6::boolean OR parent_id IS NULL)
  AND (NOT $7::boolean OR schedule_enabled)
ORDER BY seq DESC LIMIT $8 OFFSET $9;

-- name: count_tasks
-- The same parameters without limit and offset.
SELECT count(*) FROM tasks
WHERE ($1::boolean OR user_id IS NOT DISTINCT FROM $2)
  AND ($3::text IS NULL OR status = $3)
  AND ($4::text IS NULL OR strpos(lower(name), lower($4)) > 0)
  AND ($5::uuid IS NULL OR task_tree_id = $5)
  AND (NOT $6::boolean OR parent_id IS NULL)
  AND (NOT $7::boolean OR schedule_enabled);

-- name: taken_ids
-- Those of the ids that are stored, whoever owns them: ids are unique across owners.
SELECT id FROM tasks WHERE id = ANY ($1::uuid[]);
