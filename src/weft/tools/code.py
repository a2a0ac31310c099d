"""What a Python function does, as one short text."""

import hashlib
from collections.abc import Callable, Iterator
from inspect import isfunction
from types import CodeType
from typing import Any

DIGEST_BYTES = 16


def code_digest(function: Callable[..., Any]) -> str:
    """Another one when the code of the function is changed, not when it only moves in its file.

    What it calls, and the values of its module that it uses, are not looked at.
    """
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in _parts_of(function):
        digest.update(repr(part).encode("utf-8", "replace"))
    return digest.hexdigest()


def _parts_of(function: Any) -> Iterator[object]:
    """Also of what a decorator has wrapped."""
    yield function.__defaults__
    yield function.__kwdefaults__
    yield from _parts(function.__code__)
    wrapped = getattr(function, "__wrapped__", None)
    if isfunction(wrapped):
        yield from _parts_of(wrapped)


def _parts(code: CodeType) -> Iterator[object]:
    yield code.co_code
    yield code.co_names
    yield code.co_varnames
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _parts(value)
        elif isinstance(value, frozenset):  # its order is another in every process
            yield sorted(map(repr, value))
        else:
            yield value
