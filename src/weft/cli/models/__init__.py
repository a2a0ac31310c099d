"""`weft models`."""
