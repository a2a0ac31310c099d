"""Perform the effects of a project."""
