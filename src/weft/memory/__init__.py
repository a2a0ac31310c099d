"""Memory: the index of files, and the search for the files that are relevant to a task."""
