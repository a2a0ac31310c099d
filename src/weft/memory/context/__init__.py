"""Assemble the context of a task."""
