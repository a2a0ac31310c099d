"""Subtasks that models request."""
