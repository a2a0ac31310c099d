-- Every version of every template of the library; no row is ever deleted, for runs name them.
CREATE TABLE templates (
    seq INTEGER PRIMARY KEY,
    user_id TEXT,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    facts TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER -- of the newest version: the name is free again
);
CREATE UNIQUE INDEX template_versions ON templates (name, coalesce(user_id, ''), version);
