"""Compilers of the task operators, one module per kind of task."""
