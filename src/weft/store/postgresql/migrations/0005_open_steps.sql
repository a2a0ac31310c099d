-- Steps end with their run. When a task with children or a step with steps below it ends, its open steps are looked up;
-- without this index that would read every step of the run.
-- Keys are compared byte by byte, so that the steps below a key are a range, whatever the collation of the database.
CREATE INDEX open_steps ON tasks (step_of, step_key COLLATE "C") WHERE step_of IS NOT NULL AND status = 'in_progress';

-- Earlier versions left steps open below runs that had ended.
WITH ended AS (
    UPDATE tasks
    SET status = 'cancelled', error = 'not finished when its run ended', step_hash = NULL,
        completed_at = run.completed_at, updated_at = run.completed_at
    FROM tasks AS run
    WHERE tasks.step_of IS NOT NULL AND tasks.status = 'in_progress'
      AND run.id = tasks.step_of AND run.status IN ('completed', 'failed', 'cancelled')
    RETURNING tasks.id, tasks.task_tree_id, tasks.user_id, tasks.completed_at, tasks.seq
)
INSERT INTO events (type, task_id, task_tree_id, user_id, at, facts)
SELECT 'task.cancelled', id, task_tree_id, user_id, completed_at, '{"error":"not finished when its run ended"}'
FROM ended ORDER BY seq;
