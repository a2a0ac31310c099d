-- name: running_flows
-- Roots of flows that somebody asked to be run, oldest first. $1 everyone, $2 user_id
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
-- Only when nothing of it can go on by itself: nothing ready, nothing delayed, nothing in progress. A step is no
-- more under way than the task whose evaluation made it: it may wait for a person while that one rests. $1 root
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
-- First what is in progress but nobody works on, then what is ready; each by priority, then in creation order.
-- The methods of the ready tasks are found by one look-up in the index each, however many tasks there are, and
-- each is asked for its next tasks on its own, since each has its limit: nothing is sorted but what these give.
-- A worker that is not known was taken for dead: what it claimed now, nobody would ever release. One whose lease
-- has run out may be taken for dead at any moment.
-- Methods that it does not know are left to another worker that lives and may know them; each row, of which there is at least one, ends
-- with those methods.
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
others (known) AS (  -- the methods that each of the other workers that live knows; NULL: it may know any
    SELECT workers.methods FROM workers WHERE workers.id < $2 AND workers.lease_until >= $3
    UNION ALL  -- those before and those after it, which the index finds
    SELECT workers.methods FROM workers WHERE workers.id > $2 AND workers.lease_until >= $3
),
given_back AS (
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
    LEFT JOIN (SELECT method, count(*) AS slots FROM given_back GROUP BY method) AS taken
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
    ORDER BY priority, seq LIMIT $4 - (SELECT count(*) FROM given_back)
),
chosen (chosen_id, turn) AS (SELECT id, 0 FROM given_back UNION ALL SELECT id, 1 FROM ready),
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
-- When the next delayed task of the flows that the worker may run can start: a time to come, since what is past
-- and was not claimed waits for something else. $1 roots, $2 worker, $3 now
SELECT min(found.ready_at)
FROM tasks AS flow
CROSS JOIN LATERAL (
    SELECT min(ready_at) AS ready_at FROM tasks
    WHERE task_tree_id = flow.id AND status = 'pending' AND ready_at > $3
) AS found
WHERE flow.id = ANY ($1::uuid[]) AND flow.is_running AND EXISTS (SELECT FROM workers WHERE workers.id = $2);

-- name: add_worker
-- Again, too: the answer to the first time may have been lost.
INSERT INTO workers (id, lease_until, methods) VALUES ($1, $2, $3)
ON CONFLICT (id) DO UPDATE SET lease_until = excluded.lease_until, methods = excluded.methods;

-- name: renew_worker
-- Outside of the write lock. $1 id, $2 seconds, $3 now, or null for the server's time
UPDATE workers SET lease_until = coalesce($3, clock_timestamp()) + $2 WHERE id = $1 RETURNING id;

-- name: remove_workers
DELETE FROM workers WHERE id = ANY ($1::text[]);

-- name: list_workers
SELECT id FROM workers ORDER BY id;

-- name: restart_delays
-- A delay that began in the future: the clock was put back since. $1 now
UPDATE tasks SET ready_at = $1 + (ready_at - updated_at), updated_at = $1
WHERE status = 'pending' AND ready_at IS NOT NULL AND updated_at > $1
RETURNING id, attempt, '' AS worker, task_tree_id, user_id, ready_at;

-- name: shorten_leases
-- $1 when a lease ends that begins now
UPDATE workers SET lease_until = $1 WHERE lease_until > $1;

-- name: expired_workers
-- Locked until the end of the transaction: who renews its lease meanwhile waits, and then finds that it was taken for
-- dead; who was quicker is not found here. $1 the time by which a lease has run out, or null
SELECT id FROM workers WHERE lease_until < $1 FOR UPDATE;

-- name: unknown_workers
-- Those that claimed tasks after they were taken for dead: no lease covers these claims.
SELECT DISTINCT worker FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker IS NOT NULL
  AND NOT EXISTS (SELECT FROM workers WHERE workers.id = tasks.worker);

-- name: tasks_of_worker
SELECT id, attempt, worker, task_tree_id, user_id FROM tasks
WHERE status = 'in_progress' AND step_of IS NULL AND worker = $1;

-- name: give_back_all
-- $1 workers, $2 now, $3 what it adds to the lost attempts: 1 when the workers died, 0 when they left in good order
UPDATE tasks SET worker = NULL, updated_at = $2, losses = losses + $3
FROM unnest($1::text[]) AS gone (worker)
WHERE tasks.status = 'in_progress' AND tasks.step_of IS NULL AND tasks.worker = gone.worker
RETURNING tasks.id, tasks.attempt, gone.worker, tasks.task_tree_id, tasks.user_id, tasks.seq;
