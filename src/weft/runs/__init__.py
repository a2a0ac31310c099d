"""Runs: programs whose every step is a stored task record, found again when they are evaluated anew."""
