"""Evaluates syntax trees. All I/O goes through `Effects`."""
