-- A step is a record that the evaluation of another one made. No engine claims it: who evaluates performs it.
ALTER TABLE tasks
    ADD COLUMN step_of uuid, -- the task whose evaluation made it; null: it is no step
    ADD COLUMN step_key text, -- where in the evaluation
    ADD COLUMN step_hash text, -- of what was asked for: on replay it must be the same
    ADD COLUMN reuse_hash text; -- what other runs find a completed step by; null: it is not for them

CREATE INDEX steps_by_task ON tasks (step_of, seq) WHERE step_of IS NOT NULL;
CREATE INDEX reusable_steps ON tasks (reuse_hash) WHERE reuse_hash IS NOT NULL;
DROP INDEX tasks_in_progress;
CREATE INDEX tasks_in_progress ON tasks (task_tree_id, worker) WHERE status = 'in_progress' AND step_of IS NULL;
