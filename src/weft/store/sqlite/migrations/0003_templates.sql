-- Every version of every template in the library. No row is ever deleted, because runs refer to versions.
CREATE TABLE templates (
    seq INTEGER PRIMARY KEY,
    user_id TEXT,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    facts TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    removed_at INTEGER -- set on the newest version when the template is removed
);
CREATE UNIQUE INDEX template_versions ON templates (name, coalesce(user_id, ''), version);
