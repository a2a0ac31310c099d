-- A task at rest waits for people, but no longer than the time limits of its program allow.
ALTER TABLE tasks ADD COLUMN wake_at INTEGER; -- from when on it need not rest; it counts while the task does
CREATE INDEX rests_by_end ON tasks (wake_at) WHERE status = 'pending' AND wake_at IS NOT NULL;
