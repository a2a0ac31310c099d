-- Every version of every template in the library. No row is ever deleted, because runs refer to versions.
CREATE TABLE templates (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id text,
    name text NOT NULL,
    version integer NOT NULL,
    text text NOT NULL,
    facts text NOT NULL,
    created_at timestamptz NOT NULL,
    removed_at timestamptz -- set on the newest version when the template is removed
);
CREATE UNIQUE INDEX template_versions ON templates (name, coalesce(user_id, ''), version);
