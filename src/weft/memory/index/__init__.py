"""The index of files, in SQLite."""
