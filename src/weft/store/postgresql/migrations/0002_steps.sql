-- A step is a record made by the run of another task. No engine claims it: the run itself performs it.
ALTER TABLE tasks
    ADD COLUMN step_of uuid, -- the task that made the step; null: not a step
    ADD COLUMN step_key text, -- where in the run the step was made
    ADD COLUMN step_hash text, -- digest of the request, compared on replay
    ADD COLUMN reuse_hash text; -- digest by which other runs find a completed step; null: not reusable

CREATE INDEX steps_by_task ON tasks (step_of, seq) WHERE step_of IS NOT NULL;
CREATE INDEX reusable_steps ON tasks (reuse_hash) WHERE reuse_hash IS NOT NULL;
DROP INDEX tasks_in_progress;
CREATE INDEX tasks_in_progress ON tasks (task_tree_id, worker) WHERE status = 'in_progress' AND step_of IS NULL;
