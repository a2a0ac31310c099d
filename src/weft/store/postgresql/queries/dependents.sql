-- name: delete_dependents_of
-- Must run before the records are updated or deleted, while they still have their old dependencies. $1 ids
WITH old AS MATERIALIZED (
    SELECT tasks.id AS task_id, dependency.id AS dependency_id
    FROM tasks, json_to_recordset(tasks.dependencies::json) AS dependency (id uuid)
    WHERE tasks.id = ANY ($1::uuid[])
)
DELETE FROM dependents USING old
WHERE dependents.dependency_id = old.dependency_id AND dependents.task_id = old.task_id;

-- name: recount_waiting
-- Recounts the tasks and everything that depends on them. $1 ids
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
