-- name: start_task
-- ?1 now, ?2 worker, ?3 id, ?4 everyone, ?5 user_id
UPDATE tasks
SET status = 'in_progress', started_at = ?1, updated_at = ?1, attempt = attempt + 1, worker = ?2, ready_at = NULL
WHERE id = ?3 AND status = 'pending' AND origin_type IS NOT 'archive' AND (?4 OR user_id IS ?5)
RETURNING attempt, task_tree_id, user_id;

-- name: claim_task
-- The same transaction has found the task ready or released. ?1 now, ?2 worker, ?3 seq
UPDATE tasks
SET status = 'in_progress', started_at = ?1, updated_at = ?1, attempt = attempt + 1, worker = ?2, ready_at = NULL
WHERE seq = ?3;

-- name: report_progress
-- ?1 progress, ?2 now, ?3 id, ?4 attempt, ?5 worker, ?6 user_id
UPDATE tasks SET progress = ?1, updated_at = ?2
WHERE id = ?3 AND status = 'in_progress' AND attempt = ?4 AND worker = ?5 AND user_id IS ?6;

-- name: finish_task
-- ?1 status, ?2 result, ?3 error, ?4 progress, ?5 at, ?6 id, ?7 attempt, ?8 worker, ?9 user_id
UPDATE tasks
SET status = ?1, result = ?2, error = ?3, progress = coalesce(?4, progress),
    completed_at = ?5, updated_at = ?5, worker = NULL
WHERE id = ?6 AND status = 'in_progress' AND attempt = ?7 AND worker = ?8 AND user_id IS ?9
RETURNING seq, has_children;

-- name: retry_task
-- Records a failed attempt and schedules the next one in one write.
-- ?1 error, ?2 ready_at, ?3 now, ?4 id, ?5 attempt, ?6 worker, ?7 user_id
UPDATE tasks
SET status = 'pending', started_at = NULL, progress = 0.0, updated_at = ?3, worker = NULL, ready_at = ?2,
    failures = failures + 1, losses = 0, last_error = ?1
WHERE id = ?4 AND status = 'in_progress' AND attempt = ?5 AND worker = ?6 AND user_id IS ?7;

-- name: suspend_task
-- Ends an attempt without an outcome. ?1 now, ?2 wake_at, ?3 id, ?4 attempt, ?5 worker, ?6 user_id
UPDATE tasks
SET status = 'pending', started_at = NULL, progress = 0.0, updated_at = ?1, worker = NULL, ready_at = NULL, losses = 0,
    wake_at = ?2
WHERE id = ?3 AND status = 'in_progress' AND attempt = ?4 AND worker = ?5 AND user_id IS ?6;

-- name: has_ended
-- Whether at least one of the tasks has ended. ?1 JSON list of ids
SELECT EXISTS (
    SELECT 1 FROM json_each(?1) AS wanted JOIN tasks ON tasks.id = wanted.value
    WHERE tasks.status NOT IN ('pending', 'in_progress')
);

-- name: set_dependencies
UPDATE tasks SET dependencies = ?1 WHERE id = ?2;

-- name: release_task
-- ?1 now, ?2 id, ?3 attempt, ?4 worker, ?5 user_id
UPDATE tasks SET worker = NULL, updated_at = ?1
WHERE id = ?2 AND status = 'in_progress' AND attempt = ?3 AND worker = ?4 AND user_id IS ?5;

-- name: release_dependents
-- Decrements `waiting_for` of the dependents of ended tasks: optional dependencies in any case, required ones if they
-- completed. Handles all tasks that ended in a transaction at once, so that each dependent is written once.
-- ?1 JSON list of seq, ?2 whether they completed
UPDATE tasks SET waiting_for = waiting_for - released.dependencies
FROM (
    SELECT dependents.dependent, count(*) AS dependencies
    FROM json_each(?1) AS ended
    CROSS JOIN dependents ON dependents.dependency = ended.value AND (?2 OR NOT dependents.is_required)
    GROUP BY dependents.dependent
) AS released
WHERE tasks.seq = released.dependent AND tasks.origin_type IS NOT 'archive';

-- name: insert_dependent_of_seq
INSERT INTO dependents (dependency, dependent, is_required) VALUES (?, ?, ?);

-- name: insert_dependent
-- ?1 id of the dependency, ?2 id of the dependent, ?3 whether it is required
INSERT INTO dependents (dependency, dependent, is_required)
VALUES ((SELECT seq FROM tasks WHERE id = ?1), (SELECT seq FROM tasks WHERE id = ?2), ?3);

-- name: delete_dependents_of
-- Must run before the record is updated or deleted, while it still has its old dependencies.
DELETE FROM dependents
WHERE dependent = (SELECT seq FROM tasks WHERE id = ?1)
  AND dependency IN (
    SELECT needed.seq FROM json_each((SELECT dependencies FROM tasks WHERE id = ?1)) AS named
    JOIN tasks AS needed ON needed.id = named.value ->> 'id'
  );

-- name: recount_waiting
-- Recounts a task and everything that depends on it. ?1 id
UPDATE tasks
SET waiting_for = (
    SELECT count(*) FROM json_each(tasks.dependencies) AS dependency
    JOIN tasks AS needed ON needed.id = dependency.value ->> 'id'
    WHERE needed.status <> 'completed'
      AND NOT (needed.status IN ('failed', 'cancelled') AND NOT (dependency.value ->> 'required'))
)
WHERE (
    id = ?1
    OR seq IN (SELECT dependent FROM dependents WHERE dependency = (SELECT seq FROM tasks WHERE id = ?1))
  )
  AND origin_type IS NOT 'archive';
