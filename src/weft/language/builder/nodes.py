"""Conversion of Python values to nodes, with the location of the Python code that built them."""

import sys
from collections.abc import Sequence
from functools import lru_cache
from math import isfinite
from types import FrameType
from typing import Any, Protocol, runtime_checkable

from weft.language.ast import Condition, FunctionCall, Literal, Node, Quote, Symbol, Text, Variable, begin
from weft.language.builtins import is_reserved
from weft.language.cel import parse_condition, parse_text
from weft.language.diagnostics import invalid_program
from weft.language.sexp.program import SPECIAL_FORMS
from weft.language.source import Source, Span


def definable(name: str, span: Span) -> str:
    """Return the name; raise InvalidProgram if it is the name of a form or a built-in."""
    kind = "a form" if name in SPECIAL_FORMS else "a built-in" if is_reserved(name) else None
    if kind is not None:
        raise invalid_program(
            span, "reserved-name", f"'{name}' is {kind} and cannot be defined; choose another name"
        )
    return name


_PACKAGE = __name__.rpartition(".")[0]


@lru_cache(maxsize=1024)
def _source(name: str) -> Source:
    return Source(name, "")


def here() -> Span:
    """Return the file and line of the innermost caller outside this package; the column is unknown (0)."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - inspect.stack reads files and takes milliseconds
    while frame is not None and _is_in_package(frame):
        frame = frame.f_back
    if frame is None:
        return Span(_source("<built>"), 1, 0)
    return Span(_source(frame.f_code.co_filename), frame.f_lineno, 0)


def inside(span: Span, what: str, text: str) -> Span:
    """Return the location of the first character of a text that Python code at `span` contains.

    The text becomes a source of its own, so that problems in it are shown with their line and a caret.
    """
    return Span(Source(f"{span}:{what}", text), 1, 1)


def _is_in_package(frame: FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


MAX_VALUE_DEPTH = 400
"""Maximum nesting of a value: each level takes two of Python's thousand stack frames."""


@runtime_checkable
class HasNode(Protocol):
    """An object that can be converted to a node: a task function becomes a variable with its name."""

    def as_node(self) -> Node: ...


def as_node(value: Any) -> Node:
    """Convert a Python value to a node; nodes stay as they are, and lists and dicts may contain nodes."""
    return _as_node(value, here(), MAX_VALUE_DEPTH)


def _as_node(value: Any, span: Span, levels: int) -> Node:
    if isinstance(value, Node):
        return value
    if isinstance(value, HasNode):
        return value.as_node()
    if isinstance(value, Symbol):
        return Quote(span=span, datum=value)
    if isinstance(value, float) and not isfinite(value):
        raise invalid_program(span, "bad-value", f"{value} is not a JSON number")
    if value is None or isinstance(value, bool | int | float | str):
        return Literal(span=span, value=value)
    if levels == 0:
        raise invalid_program(span, "program-too-deep", "a value nests too deeply, or contains itself")
    if isinstance(value, list | tuple):
        args = tuple([_as_node(item, span, levels - 1) for item in value])
        return FunctionCall(span=span, func_name="list", args=args)
    if isinstance(value, dict):
        keywords = tuple([(str(name), _as_node(item, span, levels - 1)) for name, item in value.items()])
        return FunctionCall(span=span, func_name="dict", keywords=keywords)
    message = f"a value must be JSON or a node, not a Python {type(value).__name__}"
    raise invalid_program(span, "bad-value", message)


def as_nodes(values: Sequence[Any]) -> tuple[Node, ...]:
    return tuple([as_node(value) for value in values])


def as_keywords(values: dict[str, Any]) -> tuple[tuple[str, Node], ...]:
    return tuple([(str(name), as_node(value)) for name, value in values.items()])


def as_body(values: Sequence[Any]) -> Node:
    """Combine expressions into one node; raise InvalidProgram if there are no expressions."""
    if not values:
        raise invalid_program(here(), "missing-field", "the body is empty: at least one expression is needed")
    return begin(as_nodes(values), here())


def as_text(value: str | Text, span: Span, what: str) -> Text:
    """Parse the placeholders of a text; `what` is the name of the text in messages."""
    if isinstance(value, Text):
        return value
    if not isinstance(value, str):
        raise invalid_program(
            span, "bad-value", f"{what} must be a string, not a Python {type(value).__name__}"
        )
    return parse_text(value, inside(span, what, value))


def as_condition(value: str | Condition, span: Span) -> Condition:
    """Return a condition; raise InvalidProgram if it cannot be parsed."""
    if isinstance(value, Condition):
        return value
    if not isinstance(value, str):
        raise invalid_program(
            span, "bad-value", f"a condition must be a string, not a Python {type(value).__name__}"
        )
    location = inside(span, "condition", value)
    parse_condition(value, location)
    return Condition(span=location, text=value)


def as_name(value: str | Variable, span: Span) -> str:
    """Return a name given as a string or a variable."""
    if isinstance(value, Variable) and not value.path:
        return value.name
    if isinstance(value, str) and value:
        return str(value)
    raise invalid_program(
        span, "bad-value", "a name must be a non-empty string, or a variable without a path"
    )
