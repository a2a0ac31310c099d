"""Find the files that matter for a question."""
