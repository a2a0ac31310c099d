"""`weft repl`."""
