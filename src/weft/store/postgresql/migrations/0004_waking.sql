-- A suspended task waits for people, but no longer than the time limits of its program allow.
ALTER TABLE tasks ADD COLUMN wake_at timestamptz; -- latest time to resume a suspended task
CREATE INDEX rests_by_end ON tasks (wake_at) WHERE status = 'pending' AND wake_at IS NOT NULL;
