"""Embedded models: downloaded once, then run on this machine without network or key."""
