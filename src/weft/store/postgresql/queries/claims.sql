-- name: claim_tasks(roots, worker, now, slots, limited, left, known)
-- Claims released tasks first (in progress, but without a worker), then ready ones; both by priority and creation order.
-- The methods of the ready tasks are found with one index lookup per method, however many tasks there are. Each method
-- is queried separately for its next tasks, since it has its own limit; only the rows found are sorted.
-- A worker that is not registered was declared dead, and nobody would ever release its new claims. A worker with an
-- expired lease may be declared dead at any moment. Neither claims a task.
-- Tasks with methods that the worker does not know are left to other live workers that may know them. There is at
-- least one row, and the last column of each row holds those methods.
-- $1 roots, $2 worker, $3 now, $4 slots, $5 methods with a limit, $6 slots left for each of them, $7 methods known or null
WITH RECURSIVE flows (root) AS (
    SELECT id FROM tasks
    WHERE id = ANY ($1::uuid[]) AND is_running
      AND EXISTS (SELECT FROM workers WHERE workers.id = $2 AND workers.lease_until >= $3)
),
methods (root, method) AS (
    SELECT flows.root, (
        SELECT min(task.method) FROM tasks AS task
        WHERE task.task_tree_id = flows.root
          AND task.status = 'pending' AND task.waiting_for = 0 AND NOT task.schedule_enabled
    ) FROM flows
    UNION ALL
    SELECT methods.root, (
        SELECT min(task.method) FROM tasks AS task
        WHERE task.task_tree_id = methods.root AND task.method > methods.method
          AND task.status = 'pending' AND task.waiting_for = 0 AND NOT task.schedule_enabled
    ) FROM methods WHERE methods.method IS NOT NULL
),
free (method, slots) AS (SELECT * FROM unnest($5::text[], $6::bigint[])),
others (known) AS (  -- the methods that each other live worker knows; NULL: it may know any
    SELECT workers.methods FROM workers WHERE workers.id < $2 AND workers.lease_until >= $3
    UNION ALL  -- the ids before and after the worker's own: two ranges of the index
    SELECT workers.methods FROM workers WHERE workers.id > $2 AND workers.lease_until >= $3
),
released AS (
    SELECT found.id, found.method
    FROM (
        SELECT task.id, task.method, task.priority, task.seq,
               row_number() OVER (PARTITION BY task.method ORDER BY task.priority, task.seq) AS place
        FROM flows CROSS JOIN LATERAL (
            SELECT id, method, priority, seq FROM tasks
            WHERE task_tree_id = flows.root AND status = 'in_progress' AND step_of IS NULL AND worker IS NULL
        ) AS task
    ) AS found
    LEFT JOIN free ON free.method = found.method
    WHERE (free.slots IS NULL OR found.place <= free.slots)
      AND ($7::text[] IS NULL OR found.method = ANY ($7)
           OR NOT EXISTS (SELECT FROM others WHERE known IS NULL OR found.method = ANY (known)))
    ORDER BY found.priority, found.seq LIMIT $4
),
offered AS (
    SELECT found.id, found.priority, found.seq, free.slots - coalesce(taken.slots, 0) AS slots,
           row_number() OVER (PARTITION BY methods.method ORDER BY found.priority, found.seq) AS place
    FROM methods
    LEFT JOIN free ON free.method = methods.method
    LEFT JOIN (SELECT method, count(*) AS slots FROM released GROUP BY method) AS taken
        ON taken.method = methods.method
    CROSS JOIN LATERAL (
        SELECT task.id, task.priority, task.seq FROM tasks AS task
        WHERE task.task_tree_id = methods.root AND task.method = methods.method
          AND task.status = 'pending' AND task.waiting_for = 0 AND NOT task.schedule_enabled
          AND (task.ready_at IS NULL OR task.ready_at <= $3)
        ORDER BY task.priority, task.seq LIMIT greatest(0, least($4, free.slots - coalesce(taken.slots, 0)))
    ) AS found
    WHERE $7::text[] IS NULL OR methods.method = ANY ($7)
       OR NOT EXISTS (SELECT FROM others WHERE known IS NULL OR methods.method = ANY (known))
),
ready AS (
    SELECT id FROM offered
    WHERE slots IS NULL OR place <= slots
    ORDER BY priority, seq LIMIT $4 - (SELECT count(*) FROM released)
),
chosen (chosen_id, turn) AS (SELECT id, 0 FROM released UNION ALL SELECT id, 1 FROM ready),
claimed AS (
    UPDATE tasks
    SET status = 'in_progress', started_at = $3, updated_at = $3, attempt = attempt + 1, worker = $2, ready_at = NULL
    FROM chosen WHERE id = chosen_id
    RETURNING {columns}, attempt, failures, losses, last_error, turn, seq
)
SELECT claimed.*, unknown.methods
FROM (
    SELECT array_agg(method) AS methods FROM (
        SELECT method FROM methods
        UNION ALL
        SELECT task.method FROM flows CROSS JOIN LATERAL (
            SELECT method FROM tasks
            WHERE task_tree_id = flows.root AND status = 'in_progress' AND step_of IS NULL AND worker IS NULL
        ) AS task
    ) AS could_start
    WHERE NOT method = ANY ($7::text[])
      AND EXISTS (SELECT FROM others WHERE known IS NULL OR method = ANY (known))
) AS unknown
LEFT JOIN claimed ON true
ORDER BY turn, priority, seq;

-- name: next_ready_at(roots, worker, now)
-- When the next delayed task of the flows can start. Only future times count: a task that is due and was not claimed
-- waits for something else. $1 roots, $2 worker, $3 now
SELECT min(found.ready_at)
FROM tasks AS flow
CROSS JOIN LATERAL (
    SELECT min(ready_at) AS ready_at FROM tasks
    WHERE task_tree_id = flow.id AND status = 'pending' AND ready_at > $3
) AS found
WHERE flow.id = ANY ($1::uuid[]) AND flow.is_running AND EXISTS (SELECT FROM workers WHERE workers.id = $2);

-- name: add_worker(worker, lease_until, methods)
-- May be repeated, because the reply to the first call may have been lost. Removes rows of processes that died long ago:
-- nobody needs their last transaction.
WITH old AS (DELETE FROM writers WHERE at < clock_timestamp() - interval '7 days')
INSERT INTO workers (id, lease_until, methods) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, methods = excluded.methods;

-- name: renew_worker(worker, lease, now)
-- Runs without the write lock; without `now`, it is the server's time.
UPDATE workers SET lease_until = coalesce(:now, clock_timestamp()) + :lease WHERE id = :worker RETURNING id;

-- name: expired_workers(expired_at)
-- The rows stay locked until the end of the transaction: a worker that renews its lease meanwhile waits, and then finds
-- that it was declared dead. A worker that renewed before is not found here.
SELECT id FROM workers WHERE lease_until < $1 FOR UPDATE;
