"""Searches the index for chunks that match a query."""
