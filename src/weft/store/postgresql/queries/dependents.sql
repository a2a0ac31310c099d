-- name: delete_dependents_of
-- Before the records themselves change or go: they still say what they depend on. $1 ids
DELETE FROM dependents
USING tasks, json_to_recordset(tasks.dependencies::json) AS dependency (id uuid)
WHERE tasks.id = ANY ($1::uuid[]) AND dependents.task_id = tasks.id AND dependents.dependency_id = dependency.id;

-- name: recount_waiting
-- The tasks and everything that depends on them. $1 ids
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
