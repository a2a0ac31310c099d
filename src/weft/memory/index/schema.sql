-- Tables of the index. The file is replaced if its version is not SCHEMA_VERSION.

CREATE TABLE memory_roots (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,      -- absolute, links resolved
    updated_at REAL                 -- seconds since the epoch; NULL: no update has finished
);

CREATE TABLE memory_files (
    id INTEGER PRIMARY KEY,
    root_id INTEGER NOT NULL,
    path TEXT NOT NULL,             -- relative to the root, with /
    size INTEGER NOT NULL,          -- bytes
    mtime_ns INTEGER NOT NULL,
    ctime_ns INTEGER NOT NULL,
    is_settled INTEGER NOT NULL,    -- 0: changed just before it was read, so a later change may go unnoticed
    skipped TEXT,                   -- why it has no text: binary, too_large; NULL: it has one
    hash BLOB,                      -- of the bytes
    lines INTEGER NOT NULL DEFAULT 0,
    language TEXT,
    title TEXT,
    symbols BLOB,                   -- JSON: [[name, kind, line], ...]
    UNIQUE (root_id, path)
);

CREATE TABLE memory_texts (
    file_id INTEGER PRIMARY KEY,
    text BLOB NOT NULL              -- UTF-8, lines end with \n, compressed by zstd
);

CREATE TABLE memory_chunks (
    id INTEGER PRIMARY KEY,         -- also the rowid in memory_words
    file_id INTEGER NOT NULL,
    first_line INTEGER NOT NULL,    -- counted from 1
    last_line INTEGER NOT NULL,
    start_character INTEGER NOT NULL,   -- for a part of a very long line: its first character, counted from 0
    end_character INTEGER,          -- end of the part; NULL: whole lines
    symbols TEXT NOT NULL,          -- names defined in it and the enclosing one, separated by spaces
    headings TEXT NOT NULL          -- headings in it and the one above it, or the title; separated by newlines
);
CREATE INDEX memory_chunks_of_file ON memory_chunks (file_id, first_line);

-- Contentless: the text is stored once, compressed, in memory_texts. Rows are deleted by the 'delete' command with
-- the words they were inserted with, which `fields_of` computes again from the same columns.
CREATE VIRTUAL TABLE memory_words USING fts5 (
    path, symbols, headings, content, parts,  -- parts: distinct parts of the camelCase names in content
    content = '', tokenize = 'porter unicode61'
);

CREATE TABLE memory_vectors (
    file_id INTEGER NOT NULL,
    chunk_hash INTEGER NOT NULL,    -- 64-bit hash of the embedded text
    embedder TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (file_id, chunk_hash, embedder)
) WITHOUT ROWID;
CREATE TRIGGER memory_vectors_of_file AFTER DELETE ON memory_files BEGIN
    DELETE FROM memory_vectors WHERE file_id = old.id;
END;
