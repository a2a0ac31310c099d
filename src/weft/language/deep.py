"""Room on the stack for programs that nest."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

FRAMES = 20_000
"""How many Python frames a program may take. They lie on the heap: this bounds memory, not the C stack."""


@contextmanager
def deep_stack() -> Iterator[None]:
    """Let Python code recurse as deep as programs may nest.

    The limit is of the interpreter and not of a thread, so it is raised once and left: lowering it could fail
    another thread that is deep in a program.
    """
    if sys.getrecursionlimit() < FRAMES:
        sys.setrecursionlimit(FRAMES)
    yield
