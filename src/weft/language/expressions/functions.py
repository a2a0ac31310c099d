"""The functions of conditions."""

from collections.abc import Callable
from typing import Any

import re2  # type: ignore[import-untyped]
from msgspec import Struct

from weft.language.expressions.bounds import MAX_PATTERN_CHARACTERS, WORK_PER_ITEM, WORK_PER_PATTERN
from weft.language.expressions.faults import Fault
from weft.language.expressions.values import Run, article, kind_of

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.never_capture = True


class Function(Struct, frozen=True):
    """A function; the target of a method counts as an argument."""

    arity: int
    call: Callable[..., Any]
    """Takes the run, the offset for errors, and the arguments."""


def size(run: Run, at: int, value: Any) -> int:
    """How many characters a string, items a list, fields a map has."""
    kind = kind_of(value)
    if kind not in ("string", "list", "map"):
        raise Fault(at, "wrong-type", f"'size' does not take {article(kind)}")
    return len(value)


def compiled(pattern: str, at: int) -> Any:
    """The regular expression in RE2, whose time is linear in the text."""
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise Fault(at, "bad-value", f"a regular expression has at most {MAX_PATTERN_CHARACTERS} characters")
    try:
        return re2.compile(pattern, _OPTIONS)
    except (re2.error, UnicodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) and error.args else "it is no text"
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        raise Fault(at, "bad-value", f"bad regular expression: {reason}") from None


def is_match(run: Run, at: int, text: Any, pattern: Any) -> bool:
    """Whether the pattern is found in the text."""
    _want_strings("matches", at, text, pattern)
    run.spend(WORK_PER_PATTERN, at)
    return is_found(run, at, compiled(pattern, at), text)


def is_found(run: Run, at: int, pattern: Any, text: Any) -> bool:
    """Whether a compiled pattern is found in the text."""
    _want_strings("matches", at, text)
    run.spend(len(text), at)
    try:
        return pattern.search(text) is not None
    except UnicodeError:
        raise Fault(at, "bad-value", "'matches' does not take a string with half a character in it") from None


def _on_strings(name: str, method: Callable[[str, str], bool]) -> Function:
    def call(run: Run, at: int, text: Any, other: Any) -> bool:
        _want_strings(name, at, text, other)
        run.spend((len(text) + len(other)) // WORK_PER_ITEM, at)
        return method(text, other)

    return Function(2, call)


def _want_strings(name: str, at: int, *values: Any) -> None:
    for value in values:
        if kind_of(value) != "string":
            raise Fault(at, "wrong-type", f"'{name}' takes strings, not {article(kind_of(value))}")


METHODS = {
    "size": Function(1, size),
    "matches": Function(2, is_match),
    "contains": _on_strings("contains", str.__contains__),
    "startsWith": _on_strings("startsWith", str.startswith),
    "endsWith": _on_strings("endsWith", str.endswith),
}
"""`target.name(...)`."""

FUNCTIONS = ("has", "matches", "size")
"""`name(...)`: the methods that CEL has as functions too, and `has`, which is a form of its own."""
