-- Conditions use `status || ''` where the planner must use the index of ids, and not the index of tasks in progress:
-- with that one it would scan all tasks of a worker for each id.

-- name: start_tasks
UPDATE tasks
SET status = 'in_progress', started_at = wanted.now, updated_at = wanted.now,
    attempt = tasks.attempt + 1, worker = wanted.worker, ready_at = NULL
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::boolean[], $5::text[])
    AS wanted (id, worker, now, everyone, user_id)
WHERE tasks.id = wanted.id AND tasks.status = 'pending' AND tasks.origin_type IS DISTINCT FROM 'archive'
  AND (wanted.everyone OR tasks.user_id IS NOT DISTINCT FROM wanted.user_id)
RETURNING tasks.id, tasks.attempt, tasks.task_tree_id, tasks.user_id;

-- name: report_progress
UPDATE tasks SET progress = wanted.progress, updated_at = wanted.now
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[], $6::double precision[])
    AS wanted (id, attempt, worker, user_id, now, progress)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: finish_tasks
UPDATE tasks
SET status = wanted.status, result = wanted.result, error = wanted.error,
    progress = coalesce(wanted.progress, tasks.progress),
    completed_at = wanted.now, updated_at = wanted.now, worker = NULL
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[],
            $6::text[], $7::text[], $8::text[], $9::double precision[])
    AS wanted (id, attempt, worker, user_id, now, status, result, error, progress)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id, tasks.has_children;

-- name: retry_tasks
-- Records failed attempts and schedules the next ones in one write.
UPDATE tasks
SET status = 'pending', started_at = NULL, progress = 0, updated_at = wanted.now, worker = NULL,
    ready_at = wanted.ready_at, failures = tasks.failures + 1, losses = 0, last_error = wanted.error
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::text[])
    AS wanted (id, attempt, worker, user_id, now, ready_at, error)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: release_task
UPDATE tasks SET worker = NULL, updated_at = wanted.now
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[])
    AS wanted (id, attempt, worker, user_id, now)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: suspend_task
-- Ends an attempt without an outcome. $1 id, $2 attempt, $3 worker, $4 user_id, $5 now, $6 wake_at
UPDATE tasks
SET status = 'pending', started_at = NULL, progress = 0, updated_at = $5, worker = NULL, ready_at = NULL, losses = 0,
    wake_at = $6
WHERE id = $1 AND status || '' = 'in_progress' AND attempt = $2 AND worker = $3 AND user_id IS NOT DISTINCT FROM $4
RETURNING id;

-- name: has_ended
-- Whether at least one of the tasks has ended. $1 ids
SELECT EXISTS (SELECT FROM tasks WHERE id = ANY ($1::uuid[]) AND status NOT IN ('pending', 'in_progress'));

-- name: set_dependencies
UPDATE tasks SET dependencies = $2 WHERE id = $1;

-- name: release_dependents
-- Decrements `waiting_for` of the dependents of ended tasks: optional dependencies in any case, required ones if they
-- completed. An UPDATE writes each row only once, so the ended dependencies of a task are counted first.
-- $1 ids, $2 whether they completed
UPDATE tasks SET waiting_for = waiting_for - released.dependencies
FROM (
    SELECT dependents.task_id, count(*) AS dependencies
    FROM unnest($1::uuid[], $2::boolean[]) AS ended (id, is_completed)
    JOIN dependents ON dependents.dependency_id = ended.id AND (ended.is_completed OR NOT dependents.is_required)
    GROUP BY dependents.task_id
) AS released
WHERE tasks.id = released.task_id AND tasks.origin_type IS DISTINCT FROM 'archive';
