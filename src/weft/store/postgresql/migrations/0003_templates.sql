-- Every version of every template of the library; no row is ever deleted, for runs name them.
CREATE TABLE templates (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id text,
    name text NOT NULL,
    version integer NOT NULL,
    text text NOT NULL,
    facts text NOT NULL,
    created_at timestamptz NOT NULL,
    removed_at timestamptz -- of the newest version: the name is free again
);
CREATE UNIQUE INDEX template_versions ON templates (name, coalesce(user_id, ''), version);
