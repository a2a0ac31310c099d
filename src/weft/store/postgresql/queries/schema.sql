-- name: begin_write()
-- One writer at a time per schema, as with SQLite's BEGIN IMMEDIATE, by a lock that ends with the transaction. This is
-- worth more than parallel writers: events are numbered in commit order, so a reader that continues after the last
-- number misses none; operations read, decide and write without row locks; and there are no deadlocks.
-- The lock is the letters "weft" and the schema's oid. READ COMMITTED, whatever the role's default, so that each
-- statement after the lock sees all earlier commits; a snapshot would be older than the lock.
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(2003134068, quote_ident(current_schema())::regnamespace::oid::integer);

-- name: mark_transaction(writer, number)
-- Tells whether the transaction was committed if the reply to its COMMIT is lost. Returns the time, read while the lock
-- is held: now() is when the transaction began to wait for the lock. $1 writer, $2 number of its transaction
INSERT INTO writers (id, last, at) VALUES ($1, $2, clock_timestamp())
ON CONFLICT (id) DO UPDATE SET last = excluded.last, at = excluded.at
RETURNING at;

-- name: last_transaction(writer)
SELECT last FROM writers WHERE id = $1;

-- name: remove_writer(writer)
DELETE FROM writers WHERE id = $1;

-- name: server_time()
SELECT clock_timestamp();

-- name: our_tables()
SELECT relname FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace
  AND relname IN ('weft_schema', 'tasks', 'dependents', 'workers', 'events', 'templates', 'writers') AND relkind IN ('r', 'p', 'v', 'm', 'f');

-- name: schema_version()
SELECT version FROM weft_schema;

-- name: set_schema_version(version)
UPDATE weft_schema SET version = $1;

-- name: describe()
SELECT current_setting('server_version') AS server_version,
       pg_is_in_recovery() AS is_standby,
       (SELECT version FROM weft_schema) AS schema_version,
       (SELECT count(*) FROM tasks) AS tasks,
       (SELECT count(*) FROM events) AS events;
