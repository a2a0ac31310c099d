-- Times are microseconds since 1970 in UTC. JSON is stored as the encoded text.
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
    -- The columns below belong to the engine and are not part of the record.
    method TEXT NOT NULL, -- schemas.method, or ''
    waiting_for INTEGER NOT NULL, -- number of dependencies that do not let it start yet
    attempt INTEGER NOT NULL DEFAULT 0, -- number of the last attempt, which only grows: it fences off late results
    failures INTEGER NOT NULL DEFAULT 0, -- failed attempts, which a retry policy counts
    losses INTEGER NOT NULL DEFAULT 0, -- consecutive lost attempts: the worker died, or its lease expired
    last_error TEXT, -- error of the last failed attempt, while a retry is due
    worker TEXT, -- holder of the attempt in progress; null: it was released, or its worker died
    ready_at INTEGER, -- earliest time of a delayed retry
    is_running INTEGER NOT NULL DEFAULT 0, -- of a root: the flow is to be run
    -- The archive of a run also contains its failed and cancelled steps.
    CHECK (origin_type IS NOT 'archive' OR (status IN ('completed', 'failed', 'cancelled') AND worker IS NULL))
) STRICT;

CREATE INDEX tasks_by_tree ON tasks (task_tree_id);
CREATE INDEX tasks_by_source ON tasks (original_task_id) WHERE original_task_id IS NOT NULL;
CREATE INDEX roots ON tasks (seq) WHERE parent_id IS NULL;
CREATE INDEX schedules_by_due_time ON tasks (next_run_at, id) WHERE schedule_enabled = 1;
CREATE INDEX running_flows ON tasks (seq) WHERE is_running = 1;
-- A schedule may have made a million runs; every firing checks whether one of them is unfinished.
CREATE INDEX unfinished_runs ON tasks (original_task_id) WHERE is_running = 1;
-- The definition of a schedule stays pending; only its copies run.
CREATE INDEX ready_tasks ON tasks (task_tree_id, method, priority)
    WHERE status = 'pending' AND waiting_for = 0 AND schedule_enabled = 0;
CREATE INDEX delayed_tasks ON tasks (task_tree_id, ready_at) WHERE status = 'pending' AND ready_at IS NOT NULL;
CREATE INDEX tasks_in_progress ON tasks (task_tree_id, worker) WHERE status = 'in_progress';

-- The dependents of each task: the inverse of the dependencies in the records. Keyed by `seq`, not by id: tasks
-- mostly end in creation order, so rows that are looked up together are stored together, without an index of ids.
CREATE TABLE dependents (
    dependency INTEGER NOT NULL,
    dependent INTEGER NOT NULL,
    is_required INTEGER NOT NULL,
    PRIMARY KEY (dependency, dependent)
) STRICT, WITHOUT ROWID;

-- Processes that run tasks. A worker is considered dead when its lease has expired.
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

-- Triggers that enforce two guarantees: archives never change, and the event log is append-only.
-- `has_references` may change: an archive may be copied.
-- Columns that an engine writes many times a second (status, worker, counts, times) are not in the trigger's list, for
-- speed: the table's CHECK keeps an archived task ended, and the engine's statements test the status.
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
