-- The last transaction of each writer, which tells whether a commit was done if its reply was lost. PostgreSQL's
-- transaction ids do not: after a crash the server reuses an id that had not reached the disk.
CREATE TABLE writers (
    id uuid PRIMARY KEY,
    last bigint NOT NULL,
    at timestamptz NOT NULL
) WITH (fillfactor = 20);
