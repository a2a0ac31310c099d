"""Runs of programs: each step is a stored task record, and a resumed run replays the recorded steps."""
