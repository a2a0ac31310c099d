-- The last transaction of each writer: what tells whether a commit was done whose reply was lost. The number of a
-- transaction does not: after a crash the server gives it to another one if it had not reached the disk.
CREATE TABLE writers (
    id uuid PRIMARY KEY,
    last bigint NOT NULL,
    at timestamptz NOT NULL
) WITH (fillfactor = 20);
