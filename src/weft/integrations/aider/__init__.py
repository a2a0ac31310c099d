"""The executor that runs aider, a coding assistant, for tasks."""
