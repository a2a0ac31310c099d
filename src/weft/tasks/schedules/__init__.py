"""Schedules: expressions, time zones and due times."""
