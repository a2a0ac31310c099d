-- Times are microseconds since 1970 in UTC; JSON is kept as the text that was encoded.
CREATE TABLE tasks (
    seq INTEGER PRIMARY KEY, -- creation order
    id TEXT NOT NULL UNIQUE,
    parent_id TEXT,
    user_id TEXT,
    name TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled')),
    priority INTEGER NOT NULL,
    inputs TEXT NOT NULL,
    schemas TEXT,
    params TEXT,
    result TEXT,
    error TEXT,
    dependencies TEXT NOT NULL,
    progress REAL NOT NULL,
    created_at INTEGER,
    started_at INTEGER,
    updated_at INTEGER,
    completed_at INTEGER,
    origin_type TEXT,
    original_task_id TEXT,
    has_references INTEGER NOT NULL,
    schedule_type TEXT,
    schedule_expression TEXT,
    schedule_enabled INTEGER NOT NULL,
    schedule_start_at INTEGER,
    schedule_end_at INTEGER,
    next_run_at INTEGER,
    last_run_at INTEGER,
    max_runs INTEGER,
    run_count INTEGER NOT NULL,
    task_tree_id TEXT NOT NULL,
    has_children INTEGER NOT NULL,
    -- What follows is the engine's own, and no part of the record.
    method TEXT NOT NULL, -- schemas.method; '' when there is none
    waiting_for INTEGER NOT NULL, -- dependencies that do not let it start yet
    attempt INTEGER NOT NULL DEFAULT 0, -- the number of the last one, which only grows: it fences off late results
    failures INTEGER NOT NULL DEFAULT 0, -- attempts that failed: what a retry policy counts
    losses INTEGER NOT NULL DEFAULT 0, -- attempts that were lost in a row: their process died, or its lease ran out
    last_error TEXT, -- of the last attempt that failed, while the task is to be tried again
    worker TEXT, -- who has the attempt that is in progress; null: it was given back or its worker died
    ready_at INTEGER, -- not before this time: a retry that waits
    is_running INTEGER NOT NULL DEFAULT 0, -- of a root: somebody asked for the flow to be run
    -- The archive of a run has also those of its steps that failed or were called off.
    CHECK (origin_type IS NOT 'archive' OR (status IN ('completed', 'failed', 'cancelled') AND worker IS NULL))
) STRICT;

CREATE INDEX tasks_by_tree ON tasks (task_tree_id);
CREATE INDEX tasks_by_source ON tasks (original_task_id) WHERE original_task_id IS NOT NULL;
CREATE INDEX roots ON tasks (seq) WHERE parent_id IS NULL;
CREATE INDEX schedules_by_due_time ON tasks (next_run_at, id) WHERE schedule_enabled = 1;
CREATE INDEX running_flows ON tasks (seq) WHERE is_running = 1;
-- A schedule may have made a million runs; whether one of them is unfinished is asked at every firing.
CREATE INDEX unfinished_runs ON tasks (original_task_id) WHERE is_running = 1;
-- The definition of a schedule stays pending; only its copies run.
CREATE INDEX ready_tasks ON tasks (task_tree_id, method, priority)
    WHERE status = 'pending' AND waiting_for = 0 AND schedule_enabled = 0;
CREATE INDEX delayed_tasks ON tasks (task_tree_id, ready_at) WHERE status = 'pending' AND ready_at IS NOT NULL;
CREATE INDEX tasks_in_progress ON tasks (task_tree_id, worker) WHERE status = 'in_progress';

-- Who waits for a task: the dependencies of the records, turned round. By `seq`, not by id: tasks mostly end in
-- the order of their creation, so what is looked up together lies together, and an ending needs no index of ids.
CREATE TABLE dependents (
    dependency INTEGER NOT NULL,
    dependent INTEGER NOT NULL,
    is_required INTEGER NOT NULL,
    PRIMARY KEY (dependency, dependent)
) STRICT, WITHOUT ROWID;

-- Processes that run tasks; one whose lease has run out is taken for dead.
CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    lease_until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    seq INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_tree_id TEXT NOT NULL,
    user_id TEXT,
    at INTEGER NOT NULL,
    facts TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_tree ON events (task_tree_id);

-- The last line of defence of two promises: archives never change, and the log only grows.
-- `has_references` may change: an archive may be copied.
-- What an engine writes many times a second (status, worker, counts, times) is not in the trigger's list, for
-- speed: the check of the table keeps an archived task ended, and the engine's statements ask for the status.
CREATE TRIGGER archived_tasks_never_change
BEFORE UPDATE OF
    id, parent_id, user_id, name, priority, inputs, schemas, params, result, dependencies, created_at, origin_type,
    original_task_id, schedule_type, schedule_expression, schedule_enabled, schedule_start_at, schedule_end_at,
    next_run_at, last_run_at, max_runs, run_count, task_tree_id, has_children
ON tasks WHEN OLD.origin_type = 'archive'
BEGIN SELECT RAISE(ABORT, 'archived tasks never change'); END;

CREATE TRIGGER archived_tasks_stay BEFORE DELETE ON tasks WHEN OLD.origin_type = 'archive'
BEGIN SELECT RAISE(ABORT, 'archived tasks never change'); END;

CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'events never change'); END;

CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events never change'); END;
