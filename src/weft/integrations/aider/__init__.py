"""Runs aider, the program that edits code with a model, for tasks."""
