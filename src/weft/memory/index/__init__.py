"""The index of a project's files."""
