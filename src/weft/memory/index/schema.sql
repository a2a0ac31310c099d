-- Tables of the index. They are made anew, empty, when the number in `memory_meta` is not SCHEMA_VERSION.
CREATE TABLE IF NOT EXISTS memory_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS memory_roots (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,      -- absolute, links resolved
    updated_at REAL,                -- seconds since the epoch; NULL: never to the end
    lease_owner TEXT,               -- who updates it now
    lease_until REAL NOT NULL DEFAULT 0
);

CREATE TABLE IF NOT EXISTS memory_files (
    id INTEGER PRIMARY KEY,
    root_id INTEGER NOT NULL,
    path TEXT NOT NULL,             -- relative to the root, with /
    size INTEGER NOT NULL,          -- bytes
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    is_settled INTEGER NOT NULL,    -- 0: changed so shortly before it was read that it may have changed again unseen
    skipped TEXT,                   -- why there is no text of it: binary, too_large; NULL: there is
    hash BLOB,                      -- of the bytes
    lines INTEGER NOT NULL DEFAULT 0,
    language TEXT,
    title TEXT,
    symbols BLOB,                   -- JSON: [[name, kind, line], ...]
    UNIQUE (root_id, path)
);

CREATE TABLE IF NOT EXISTS memory_texts (
    file_id INTEGER PRIMARY KEY,
    text BLOB NOT NULL              -- UTF-8, lines end with \n, compressed by zstd
);

CREATE TABLE IF NOT EXISTS memory_chunks (
    id INTEGER PRIMARY KEY,         -- also the rowid in memory_words
    file_id INTEGER NOT NULL,
    first_line INTEGER NOT NULL,    -- from 1
    last_line INTEGER NOT NULL,
    start_character INTEGER NOT NULL,   -- of a very long line a chunk is a part, from this character, from 0
    end_character INTEGER,          -- up to this one; NULL: whole lines
    symbols TEXT NOT NULL,          -- names defined in it and the one it stands inside, by spaces
    headings TEXT NOT NULL          -- headings in it and the one it stands under, or its docstrings' first line; by newlines
);
CREATE INDEX IF NOT EXISTS memory_chunks_of_file ON memory_chunks (file_id, first_line);

-- Contentless: the text is in memory_texts once, compressed. Rows go by the 'delete' command with the words they
-- came with, which weft.memory.words makes again from the same columns.
CREATE VIRTUAL TABLE IF NOT EXISTS memory_words USING fts5 (
    path, symbols, headings, content, parts,  -- parts: of the camelCase names in content, each once
    content = '', tokenize = 'porter unicode61'
);

CREATE TABLE IF NOT EXISTS memory_vectors (
    file_id INTEGER NOT NULL,
    chunk_hash INTEGER NOT NULL,    -- 64 bits of what was embedded
    embedder TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (file_id, chunk_hash, embedder)
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS memory_vectors_of_file AFTER DELETE ON memory_files BEGIN
    DELETE FROM memory_vectors WHERE file_id = old.id;
END;
