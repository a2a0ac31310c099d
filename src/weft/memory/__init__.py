"""The files that matter for a task: an index of roots, and what finds the relevant ones."""
