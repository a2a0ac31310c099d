"""Syntax tree to value. Everything that touches the world goes through `Effects`."""
