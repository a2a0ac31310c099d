-- name: start_task(id, worker, now, everyone, user_id)
UPDATE tasks
SET status = 'in_progress', started_at = :now, updated_at = :now, attempt = attempt + 1, worker = :worker,
    ready_at = NULL
WHERE id = :id AND status = 'pending' AND origin_type IS NOT 'archive' AND (:everyone OR user_id IS :user_id)
RETURNING id, attempt, task_tree_id, user_id;

-- name: claim_task(now, worker, seq)
-- The same transaction has found the task ready or released.
UPDATE tasks
SET status = 'in_progress', started_at = :now, updated_at = :now, attempt = attempt + 1, worker = :worker,
    ready_at = NULL
WHERE seq = :seq;

-- name: report_progress(id, attempt, worker, user_id, now, progress)
UPDATE tasks SET progress = :progress, updated_at = :now
WHERE id = :id AND status = 'in_progress' AND attempt = :attempt AND worker = :worker AND user_id IS :user_id
RETURNING id;

-- name: finish_task(id, attempt, worker, user_id, now, status, result, error, progress)
UPDATE tasks
SET status = :status, result = :result, error = :error, progress = coalesce(:progress, progress),
    completed_at = :now, updated_at = :now, worker = NULL
WHERE id = :id AND status = 'in_progress' AND attempt = :attempt AND worker = :worker AND user_id IS :user_id
RETURNING id, seq, has_children;

-- name: retry_task(id, attempt, worker, user_id, now, ready_at, error)
-- Records a failed attempt and schedules the next one in one write.
UPDATE tasks
SET status = 'pending', started_at = NULL, progress = 0.0, updated_at = :now, worker = NULL, ready_at = :ready_at,
    failures = failures + 1, losses = 0, last_error = :error
WHERE id = :id AND status = 'in_progress' AND attempt = :attempt AND worker = :worker AND user_id IS :user_id
RETURNING id;

-- name: release_task(id, attempt, worker, user_id, now)
UPDATE tasks SET worker = NULL, updated_at = :now
WHERE id = :id AND status = 'in_progress' AND attempt = :attempt AND worker = :worker AND user_id IS :user_id
RETURNING id;

-- name: release_dependents(ended, is_completed)
-- Decrements `waiting_for` of the dependents of ended tasks: optional dependencies in any case, required ones if they
-- completed. Handles all tasks that ended in a transaction at once, so that each dependent is written once.
-- `ended`: JSON list of seq
UPDATE tasks SET waiting_for = waiting_for - released.dependencies
FROM (
    SELECT dependents.dependent, count(*) AS dependencies
    FROM json_each(:ended) AS ended
    CROSS JOIN dependents ON dependents.dependency = ended.value AND (:is_completed OR NOT dependents.is_required)
    GROUP BY dependents.dependent
) AS released
WHERE tasks.seq = released.dependent AND tasks.origin_type IS NOT 'archive';

-- name: insert_dependent_of_seq(dependency, dependent, is_required)
INSERT INTO dependents (dependency, dependent, is_required) VALUES (:dependency, :dependent, :is_required);

-- name: insert_dependents_of(id)
-- From the dependencies in the record.
INSERT INTO dependents (dependency, dependent, is_required)
SELECT (SELECT seq FROM tasks WHERE id = named.value ->> 'id'), task.seq, named.value ->> 'required'
FROM tasks AS task, json_each(task.dependencies) AS named WHERE task.id = :id;

-- name: delete_dependents_of(id)
-- Must run before the record is updated or deleted, while it still has its old dependencies.
DELETE FROM dependents
WHERE dependent = (SELECT seq FROM tasks WHERE id = :id)
  AND dependency IN (
    SELECT needed.seq FROM json_each((SELECT dependencies FROM tasks WHERE id = :id)) AS named
    JOIN tasks AS needed ON needed.id = named.value ->> 'id'
  );

-- name: recount_waiting(id)
-- Recounts a task and everything that depends on it.
UPDATE tasks
SET waiting_for = (
    SELECT count(*) FROM json_each(tasks.dependencies) AS dependency
    JOIN tasks AS needed ON needed.id = dependency.value ->> 'id'
    WHERE needed.status <> 'completed'
      AND NOT (needed.status IN ('failed', 'cancelled') AND NOT (dependency.value ->> 'required'))
)
WHERE (
    id = :id
    OR seq IN (SELECT dependent FROM dependents WHERE dependency = (SELECT seq FROM tasks WHERE id = :id))
  )
  AND origin_type IS NOT 'archive';
