-- name: insert_event
INSERT INTO events (type, task_id, task_tree_id, user_id, at, facts) VALUES (?, ?, ?, ?, ?, ?);

-- name: list_events
SELECT seq, type, task_id, task_tree_id, user_id, at, facts FROM events
WHERE seq > :after
  AND (:everyone OR user_id IS :user_id)
  AND (:tree IS NULL OR task_tree_id = :tree)
  AND (:task IS NULL OR task_id = :task)
ORDER BY seq LIMIT :limit;

-- name: count_rows
SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM events);
