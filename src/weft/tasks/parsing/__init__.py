"""Parsing and validation of task records and flows."""
