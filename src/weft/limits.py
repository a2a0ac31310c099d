"""Bounds on what weft takes in; each has its reason beside it."""

MAX_JSON_BYTES = 512 * 1024 * 1024
"""Largest JSON text that is read: a flow of a million tasks fits, an accident does not."""

MAX_SHOWN_CHARACTERS = 200
"""How much of an offending value an error repeats: enough to recognise it, never a page of it."""

MAX_NESTED_DEPTH = 200
"""Deepest tree that is written in the nested form; JSON readers give up at a few hundred levels. A
deeper tree is written as a flat list, which says the same and is read back as well."""
