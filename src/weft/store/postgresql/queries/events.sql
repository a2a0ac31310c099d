-- name: list_events
-- $1 after, $2 everyone, $3 user_id, $4 tree, $5 task, $6 limit
SELECT seq, type, task_id, task_tree_id, user_id, at, facts FROM events
WHERE seq > $1
  AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3)
  AND ($4::uuid IS NULL OR task_tree_id = $4)
  AND ($5::uuid IS NULL OR task_id = $5)
ORDER BY seq LIMIT $6;
