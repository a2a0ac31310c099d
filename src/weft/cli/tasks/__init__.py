"""`weft tasks`."""
