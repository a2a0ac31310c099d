-- JSON is `text`, not `jsonb`, on purpose: it keeps exactly what was encoded. jsonb rejects the escape \u0000,
-- reorders keys and rewrites numbers; a record would not read back equal, as it does from SQLite.
CREATE TABLE weft_schema (version integer NOT NULL);
INSERT INTO weft_schema VALUES (0);

CREATE TABLE tasks (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- creation order
    id uuid NOT NULL UNIQUE,
    parent_id uuid,
    user_id text,
    name text NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'in_progress', 'completed', 'failed', 'cancelled')),
    priority smallint NOT NULL,
    inputs text NOT NULL,
    schemas text,
    params text,
    result text,
    error text,
    dependencies text NOT NULL,
    progress double precision NOT NULL,
    created_at timestamptz,
    started_at timestamptz,
    updated_at timestamptz,
    completed_at timestamptz,
    origin_type text,
    original_task_id uuid,
    has_references boolean NOT NULL,
    schedule_type text,
    schedule_expression text,
    schedule_enabled boolean NOT NULL,
    schedule_start_at timestamptz,
    schedule_end_at timestamptz,
    next_run_at timestamptz,
    last_run_at timestamptz,
    max_runs bigint,
    run_count bigint NOT NULL,
    task_tree_id uuid NOT NULL,
    has_children boolean NOT NULL,
    -- The columns below belong to the engine and are not part of the record.
    method text NOT NULL, -- schemas.method, or ''
    waiting_for integer NOT NULL, -- number of dependencies that do not let it start yet
    attempt integer NOT NULL DEFAULT 0, -- number of the last attempt, which only grows: it fences off late results
    failures integer NOT NULL DEFAULT 0, -- failed attempts, which a retry policy counts
    losses integer NOT NULL DEFAULT 0, -- consecutive lost attempts: the worker died, or its lease expired
    last_error text, -- error of the last failed attempt, while a retry is due
    worker text, -- holder of the attempt in progress; null: it was released, or its worker died
    ready_at timestamptz, -- earliest time of a delayed retry
    is_running boolean NOT NULL DEFAULT false -- of a root: the flow is to be run
) WITH (fillfactor = 80);
-- Leaves space on each page: a progress report changes no indexed column, and a new row version that fits on its page
-- touches no index. Starting and ending always do, since the engine's indexes are on the status.

-- `seq` is in the index so that a flow is read in creation order without sorting.
CREATE INDEX tasks_by_tree ON tasks (task_tree_id, seq);
CREATE INDEX tasks_by_source ON tasks (original_task_id) WHERE original_task_id IS NOT NULL;
CREATE INDEX roots ON tasks (seq) WHERE parent_id IS NULL;
CREATE INDEX schedules_by_due_time ON tasks (next_run_at, id) WHERE schedule_enabled;
CREATE INDEX running_flows ON tasks (seq) WHERE is_running;
-- A schedule may have made a million runs; every firing checks whether one of them is unfinished.
CREATE INDEX unfinished_runs ON tasks (original_task_id) WHERE is_running;
-- The definition of a schedule stays pending; only its copies run.
CREATE INDEX ready_tasks ON tasks (task_tree_id, method, priority, seq)
    WHERE status = 'pending' AND waiting_for = 0 AND NOT schedule_enabled;
CREATE INDEX delayed_tasks ON tasks (task_tree_id, ready_at) WHERE status = 'pending' AND ready_at IS NOT NULL;
CREATE INDEX tasks_in_progress ON tasks (task_tree_id, worker) WHERE status = 'in_progress';

-- The dependents of each task: the inverse of the dependencies in the records.
CREATE TABLE dependents (
    dependency_id uuid NOT NULL,
    task_id uuid NOT NULL,
    is_required boolean NOT NULL,
    PRIMARY KEY (dependency_id, task_id)
);

-- Processes that run tasks. A worker is considered dead when its lease has expired.
CREATE TABLE workers (
    id text PRIMARY KEY,
    lease_until timestamptz NOT NULL
);

CREATE TABLE events (
    -- The sequence must not have a cache: each session would reserve numbers, and their order would be lost.
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    type text NOT NULL,
    task_id uuid NOT NULL,
    task_tree_id uuid NOT NULL,
    user_id text,
    at timestamptz NOT NULL,
    facts text NOT NULL
);

CREATE INDEX events_by_tree ON events (task_tree_id, seq);

-- Triggers that enforce two guarantees: archives never change, and the event log is append-only.
CREATE FUNCTION weft_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% never change', TG_ARGV[0] USING ERRCODE = 'integrity_constraint_violation';
END
$$;

-- `has_references` may change: an archive may be copied.
CREATE TRIGGER archived_tasks_never_change
BEFORE UPDATE OF
    seq, id, parent_id, user_id, name, status, priority, inputs, schemas, params, result, error, dependencies,
    progress, created_at, started_at, updated_at, completed_at, origin_type, original_task_id, schedule_type,
    schedule_expression, schedule_enabled, schedule_start_at, schedule_end_at, next_run_at, last_run_at, max_runs,
    run_count, task_tree_id, has_children, method, waiting_for, attempt, worker, ready_at
ON tasks FOR EACH ROW WHEN (OLD.origin_type = 'archive') EXECUTE FUNCTION weft_refuse('archived tasks');

CREATE TRIGGER archived_tasks_stay
BEFORE DELETE ON tasks FOR EACH ROW WHEN (OLD.origin_type = 'archive') EXECUTE FUNCTION weft_refuse('archived tasks');

CREATE TRIGGER events_never_change
BEFORE UPDATE OR DELETE ON events FOR EACH ROW EXECUTE FUNCTION weft_refuse('events');
