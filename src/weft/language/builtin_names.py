"""The names of the built-in functions: no program may define them."""

from weft.language.builtin_arities import BUILT_IN_ARITIES

BUILT_IN_NAMES = frozenset(BUILT_IN_ARITIES)

TASK_LIBRARY = "taskLibrary"
"""The global name of the task library: a value, not a function."""

RESERVED_NAMES = BUILT_IN_NAMES | {TASK_LIBRARY}
"""No program may define these; a local name may hide one."""

SYSTEM_NAMESPACE = "system:"
"""The names of weft's own tools begin so."""


def is_reserved(name: str) -> bool:
    """Return whether a name cannot be defined: it is built in, or in the namespace of weft's own tools."""
    return name in RESERVED_NAMES or name.startswith(SYSTEM_NAMESPACE)
