"""Integrations of external tools."""
