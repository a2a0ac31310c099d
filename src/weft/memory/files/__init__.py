"""Finds, reads and outlines the files of a root."""
