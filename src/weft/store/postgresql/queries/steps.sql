-- name: holds_run
-- Whether the attempt at a program task is still held. $1 id, $2 attempt
SELECT EXISTS (
    SELECT FROM tasks WHERE id = $1 AND status || '' = 'in_progress' AND attempt = $2 AND worker IS NOT NULL
);

-- name: update_step
-- Skips a step that somebody cancelled meanwhile, unless the cancellation came too late.
UPDATE tasks
SET status = $3, result = $4, error = $5, progress = $6, params = $7, started_at = $8, completed_at = $9,
    updated_at = $10, origin_type = $11, original_task_id = $12, step_hash = $13, reuse_hash = $14
WHERE id = $1 AND step_of = $2 AND status <> 'completed' AND (status <> 'cancelled' OR $15)
RETURNING id;

-- name: mark_step
UPDATE tasks SET params = $1, reuse_hash = NULL WHERE id = $2 AND step_of = $3;

-- name: mark_parents
UPDATE tasks SET has_children = true WHERE id = ANY ($1::uuid[]) AND NOT has_children;

-- name: mark_reused
UPDATE tasks SET has_references = true WHERE id = ANY ($1::uuid[]) AND NOT has_references;

-- name: end_open_steps
-- Ends the open steps of tasks that have ended. An open step has no outcome; its hash is removed, so that a later
-- attempt does not replay the step but performs it again. $1 tasks, $2 when each has ended, $3 error
UPDATE tasks
SET status = 'cancelled', error = $3, completed_at = ended.at, updated_at = ended.at, step_hash = NULL
FROM unnest($1::uuid[], $2::timestamptz[]) AS ended (id, at)
WHERE tasks.step_of = ended.id AND tasks.status = 'in_progress'
RETURNING tasks.seq, tasks.id, tasks.task_tree_id, tasks.user_id, tasks.completed_at, tasks.step_of;

-- name: end_steps_below
-- Ends the open steps below steps that have ended. Their keys begin with the key of an ended step and one of three
-- separators, and each of the three prefixes is a range of the index. $1 task, $2 keys, $3 when each has ended, $4 error
UPDATE tasks
SET status = 'cancelled', error = $4, completed_at = below.at, updated_at = below.at, step_hash = NULL
FROM (
    SELECT step.seq, min(ended.at) AS at
    FROM unnest($2::text[], $3::timestamptz[]) AS ended (key, at)
    CROSS JOIN (VALUES ('/', '0'), ('#', '$'), ('?', '@')) AS signs (sign, next)
    JOIN tasks AS step ON step.step_of = $1 AND step.status = 'in_progress'
        AND step.step_key COLLATE "C" >= ended.key || signs.sign
        AND step.step_key COLLATE "C" < ended.key || signs.next
    GROUP BY step.seq
) AS below
WHERE tasks.seq = below.seq
RETURNING tasks.seq, tasks.id, tasks.task_tree_id, tasks.user_id, tasks.completed_at, tasks.step_of;

-- name: steps_of
-- Excludes steps that were archived or imported without digests, and steps that were ended with their run.
SELECT {columns}, step_key, step_hash FROM tasks WHERE step_of = $1 AND step_hash IS NOT NULL ORDER BY seq;

-- name: digests_of_flow
-- $1 root
SELECT id, step_hash, reuse_hash FROM tasks WHERE task_tree_id = $1 AND step_hash IS NOT NULL;

-- name: reusable_steps
-- The latest run first; the steps of a run in the order of their requests. $1 hash, $2 user_id, $3 the flow to exclude
SELECT step.id FROM tasks AS step LEFT JOIN tasks AS root ON root.id = step.task_tree_id
WHERE step.reuse_hash = $1 AND step.status = 'completed' AND step.user_id IS NOT DISTINCT FROM $2
  AND step.origin_type IS DISTINCT FROM 'archive' AND step.task_tree_id IS DISTINCT FROM $3
ORDER BY root.seq DESC NULLS LAST, step.created_at, step.seq LIMIT 10000;

-- name: find_step
SELECT {columns} FROM tasks WHERE id = $1;
