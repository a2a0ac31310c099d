"""How well memory finds the files that a change will touch."""
