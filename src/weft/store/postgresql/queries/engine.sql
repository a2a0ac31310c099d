-- name: running_flows
-- Roots of the flows that are marked to be run, oldest first. $1 everyone, $2 user_id
SELECT id FROM tasks WHERE is_running AND ($1::boolean OR user_id IS NOT DISTINCT FROM $2) ORDER BY seq;

-- name: run_flow
-- $1 root, $2 everyone, $3 user_id
UPDATE tasks SET is_running = true
WHERE id = $1 AND parent_id IS NULL AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3)
RETURNING id;

-- name: stop_flow
UPDATE tasks SET is_running = false
WHERE id = $1 AND ($2::boolean OR user_id IS NOT DISTINCT FROM $3)
RETURNING id;

-- name: end_flow
-- Only if no task of the flow is ready, delayed or in progress. Steps do not count: a step may wait for a person while
-- the task that made it is suspended. $1 root
UPDATE tasks SET is_running = false
WHERE id = $1 AND is_running
  AND NOT EXISTS (
    SELECT FROM tasks AS task
    WHERE task.task_tree_id = $1 AND task.status = 'pending' AND task.waiting_for = 0 AND NOT task.schedule_enabled
  )
  AND NOT EXISTS (SELECT FROM tasks AS task WHERE task.task_tree_id = $1 AND task.status = 'in_progress'
    AND task.step_of IS NULL)
RETURNING id;

-- name: is_running
SELECT is_running FROM tasks WHERE id = $1;

-- name: claim_tasks
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

-- name: next_ready_at
-- When the next delayed task of the flows can start. Only future times count: a task that is due and was not claimed
-- waits for something else. $1 roots, $2 worker, $3 now
SELECT min(found.ready_at)
FROM tasks AS flow
CROSS JOIN LATERAL (
    SELECT min(ready_at) AS ready_at FROM tasks
    WHERE task_tree_id = flow.id AND status = 'pending' AND ready_at > $3
) AS found
WHERE flow.id = ANY ($1::uuid[]) AND flow.is_running AND EXISTS (SELECT FROM workers WHERE workers.id = $2);

-- name: add_worker
-- May be repeated, because the reply to the first call may have been lost.
INSERT INTO workers (id, lease_until, methods) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, methods = excluded.methods;

-- name: renew_worker
-- Runs without the write lock. $1 id, $2 seconds, $3 now, or null for the server's time
UPDATE workers SET lease_until = coalesce($3, clock_timestamp()) + $2 WHERE id = $1 RETURNING id;

-- name: remove_workers
DELETE FROM workers WHERE id = ANY ($1::text[]);

-- name: list_workers
SELECT id FROM workers ORDER BY id;

-- name: restart_delays
-- Delays that began in the future, because the clock was set back since. $1 now
UPDATE tasks SET ready_at = $1 + (ready_at - updated_at), updated_at = $1
WHERE status = 'pending' AND ready_at IS NOT NULL AND updated_at > $1
RETURNING id, attempt, '' AS worker, task_tree_id, user_id, ready_at;

-- name: shorten_leases
-- $1 the end of a lease that begins now
UPDATE workers SET lease_until = $1 WHERE lease_until > $1;

-- name: expired_workers
-- The rows stay locked until the end of the transaction: a worker that renews its lease meanwhile waits, and then finds
-- that it was declared dead. A worker that renewed before is not found here.
-- $1 the time before which a lease has expired, or null
SELECT id FROM workers WHERE lease_until < $1 FOR UPDATE;

-- name: unknown_workers
-- Workers that claimed tasks after they were declared dead: no lease covers those claims.
SELECT DISTINCT worker FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NOT NULL
  AND NOT EXISTS (SELECT FROM workers WHERE workers.id = tasks.worker);

-- name: tasks_of_worker
SELECT id, attempt, worker, task_tree_id, user_id FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker = $1;

-- name: release_all
-- $1 workers, $2 now, $3 how many lost attempts to add: 1 if the workers died, 0 if they shut down
UPDATE tasks SET worker = NULL, updated_at = $2, losses = losses + $3
FROM unnest($1::text[]) AS gone (worker)
WHERE tasks.status = 'in_progress' AND tasks.step_of IS NULL AND tasks.worker = gone.worker
RETURNING tasks.id, tasks.attempt, gone.worker, tasks.task_tree_id, tasks.user_id, tasks.seq;
