-- Conditions use `status || ''` where the planner must use the index of ids, and not the index of tasks in progress:
-- with that one it would scan all tasks of a worker for each id.

-- name: start_task(id, worker, now, everyone, user_id) set
UPDATE tasks
SET status = 'in_progress', started_at = wanted.now, updated_at = wanted.now,
    attempt = tasks.attempt + 1, worker = wanted.worker, ready_at = NULL
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::boolean[], $5::text[])
    AS wanted (id, worker, now, everyone, user_id)
WHERE tasks.id = wanted.id AND tasks.status = 'pending' AND tasks.origin_type IS DISTINCT FROM 'archive'
  AND (wanted.everyone OR tasks.user_id IS NOT DISTINCT FROM wanted.user_id)
RETURNING tasks.id, tasks.attempt, tasks.task_tree_id, tasks.user_id;

-- name: report_progress(id, attempt, worker, user_id, now, progress) set
UPDATE tasks SET progress = wanted.progress, updated_at = wanted.now
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[], $6::double precision[])
    AS wanted (id, attempt, worker, user_id, now, progress)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: finish_task(id, attempt, worker, user_id, now, status, result, error, progress) set
UPDATE tasks
SET status = wanted.status, result = wanted.result, error = wanted.error,
    progress = coalesce(wanted.progress, tasks.progress),
    completed_at = wanted.now, updated_at = wanted.now, worker = NULL
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[],
            $6::text[], $7::text[], $8::text[], $9::double precision[])
    AS wanted (id, attempt, worker, user_id, now, status, result, error, progress)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id, tasks.seq, tasks.has_children;

-- name: retry_task(id, attempt, worker, user_id, now, ready_at, error) set
-- Records failed attempts and schedules the next ones in one write.
UPDATE tasks
SET status = 'pending', started_at = NULL, progress = 0, updated_at = wanted.now, worker = NULL,
    ready_at = wanted.ready_at, failures = tasks.failures + 1, losses = 0, last_error = wanted.error
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::text[])
    AS wanted (id, attempt, worker, user_id, now, ready_at, error)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: release_task(id, attempt, worker, user_id, now) set
UPDATE tasks SET worker = NULL, updated_at = wanted.now
FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[], $5::timestamptz[])
    AS wanted (id, attempt, worker, user_id, now)
WHERE tasks.id = wanted.id AND tasks.status || '' = 'in_progress' AND tasks.attempt = wanted.attempt
  AND tasks.worker = wanted.worker AND tasks.user_id IS NOT DISTINCT FROM wanted.user_id
RETURNING tasks.id;

-- name: release_dependents(id, is_completed) set
-- Decrements `waiting_for` of the dependents of ended tasks: optional dependencies in any case, required ones if they
-- completed. An UPDATE writes each row only once, so the ended dependencies of a task are counted first.
UPDATE tasks SET waiting_for = waiting_for - released.dependencies
FROM (
    SELECT dependents.task_id, count(*) AS dependencies
    FROM unnest($1::uuid[], $2::boolean[]) AS ended (id, is_completed)
    JOIN dependents ON dependents.dependency_id = ended.id AND (ended.is_completed OR NOT dependents.is_required)
    GROUP BY dependents.task_id
) AS released
WHERE tasks.id = released.task_id AND tasks.origin_type IS DISTINCT FROM 'archive';

-- name: delete_dependents_of(id) set
-- Must run before the records are updated or deleted, while they still have their old dependencies.
WITH old AS MATERIALIZED (
    SELECT tasks.id AS task_id, dependency.id AS dependency_id
    FROM tasks, json_to_recordset(tasks.dependencies::json) AS dependency (id uuid)
    WHERE tasks.id = ANY ($1::uuid[])
)
DELETE FROM dependents USING old
WHERE dependents.dependency_id = old.dependency_id AND dependents.task_id = old.task_id;

-- name: insert_dependents_of(id) set
-- From the dependencies in the records.
INSERT INTO dependents (dependency_id, task_id, is_required)
SELECT dependency.id, tasks.id, dependency.required
FROM tasks, json_to_recordset(tasks.dependencies::json) AS dependency (id uuid, required boolean)
WHERE tasks.id = ANY ($1::uuid[]);

-- name: recount_waiting(id) set
-- Recounts the tasks and everything that depends on them.
UPDATE tasks
SET waiting_for = (
    SELECT count(*) FROM json_to_recordset(tasks.dependencies::json) AS dependency (id uuid, required boolean)
    JOIN tasks AS needed ON needed.id = dependency.id
    WHERE needed.status <> 'completed'
      AND NOT (needed.status IN ('failed', 'cancelled') AND NOT dependency.required)
)
WHERE id IN (
    SELECT unnest($1::uuid[]) UNION SELECT task_id FROM dependents WHERE dependency_id = ANY ($1::uuid[])
) AND origin_type IS DISTINCT FROM 'archive';
