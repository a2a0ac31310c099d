"""`weft flow`."""
