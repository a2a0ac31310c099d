-- Steps end with their run. When a task with children or a step with steps below it ends, its open steps are looked up;
-- without this index that would read every step of the run.
CREATE INDEX open_steps ON tasks (step_of, step_key) WHERE step_of IS NOT NULL AND status = 'in_progress';

-- Earlier versions left steps open below runs that had ended.
INSERT INTO events (type, task_id, task_tree_id, user_id, at, facts)
SELECT 'task.cancelled', step.id, step.task_tree_id, step.user_id, run.completed_at,
       '{"error":"not finished when its run ended"}'
FROM tasks AS step JOIN tasks AS run ON run.id = step.step_of
WHERE step.step_of IS NOT NULL AND step.status = 'in_progress' AND run.status IN ('completed', 'failed', 'cancelled')
ORDER BY step.seq;

UPDATE tasks
SET status = 'cancelled', error = 'not finished when its run ended', step_hash = NULL,
    completed_at = run.completed_at, updated_at = run.completed_at
FROM tasks AS run
WHERE tasks.step_of IS NOT NULL AND tasks.status = 'in_progress'
  AND run.id = tasks.step_of AND run.status IN ('completed', 'failed', 'cancelled');
