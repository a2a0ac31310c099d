-- name: remove_worker(worker)
DELETE FROM workers WHERE id = :worker;

-- name: list_workers()
SELECT id FROM workers ORDER BY id;

-- name: shorten_leases(lease_until)
-- Ends no lease later than one that begins now.
UPDATE workers SET lease_until = :lease_until WHERE lease_until > :lease_until;

-- name: unknown_workers()
-- Workers that claimed tasks after they were declared dead: no lease covers those claims.
SELECT DISTINCT worker FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM workers WHERE workers.id = tasks.worker);

-- name: tasks_of_worker(worker)
SELECT id, attempt, task_tree_id, user_id FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker = :worker;

-- name: release_all(worker, now, losses)
-- `losses`: how many lost attempts to add: 1 if the worker died, 0 if it shut down.
UPDATE tasks SET worker = NULL, updated_at = :now, losses = losses + :losses
WHERE status = 'in_progress' AND step_of IS NULL AND worker = :worker
RETURNING id, attempt, task_tree_id, user_id, seq;
