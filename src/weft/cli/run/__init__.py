"""`weft run`."""
