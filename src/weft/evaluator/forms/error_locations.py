"""Adds locations to errors: an exception of a built-in becomes an error at the node that caused it."""

import operator
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from weft.errors import WeftError
from weft.evaluator.conversion import is_data
from weft.evaluator.environment import Env
from weft.evaluator.errors import ProgramError, TaskFailed, exhausted, program_error
from weft.evaluator.results import TaskResult
from weft.evaluator.values import SCALARS, kind_of
from weft.language.ast import Node, Quote, Variable
from weft.language.diagnostics import InvalidProgram, nearest
from weft.language.sexp import print_node
from weft.language.sexp.program import why_no_value
from weft.language.source import NOWHERE, Span
from weft.language.traversal import FRAMES
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.secrets.truncation import cut

_MAX_PARTS = MAX_SHOWN_CHARACTERS + 1
"""Most parts of a node to print: each prints as at least one character, so more would not be shown."""


class Truncation:
    """Reduces a node to what the beginning of its text needs; a small one stays the same object."""

    def __init__(self) -> None:
        self._left = _MAX_PARTS

    def node(self, node: Node) -> Node:
        self._left -= 1
        if self._left < 0:
            return Variable(span=node.span, name="...")
        if isinstance(node, Quote):
            datum = self._datum(node.datum)
            return node if datum is node.datum else Quote(span=node.span, datum=datum)
        found: Node = self._fields(node)
        return found

    def _fields(self, struct: Any) -> Any:
        changes = {}
        for name in struct.__struct_fields__:
            value = getattr(struct, name)
            new = self._part(value)
            if new is not value:
                changes[name] = new
        return msgspec.structs.replace(struct, **changes) if changes else struct

    def _part(self, value: Any) -> Any:
        if value.__class__ is str:
            return value if len(value) <= _MAX_PARTS else value[:_MAX_PARTS]
        if isinstance(value, Node):
            return self.node(value)
        if value.__class__ is tuple:
            return _keep_if_same(value, [self._part(item) for item in value[:_MAX_PARTS]])
        if isinstance(value, Struct) and not isinstance(value, Span):
            return self._fields(value)
        return value

    def _datum(self, datum: Any) -> Any:
        self._left -= 1
        if datum.__class__ is not tuple:
            return self._part(datum)
        return _keep_if_same(datum, [self._datum(item) for item in datum[: max(0, self._left)]])


def _keep_if_same(before: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """Return the items as a tuple, or `before` if they are the same objects."""
    if len(before) == len(items) and all(map(operator.is_, before, items)):
        return before
    return tuple(items)


_CAUSED_BY_PROGRAMS = (ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError)
"""Python exceptions caused by wrong values of a program. All others are bugs in weft."""


MAX_NAMES = 20
MAX_SCOPES = 50
MAX_ITEMS = 10
"""Most names, environments and items of a value that an error shows, because errors are stored in records."""


def with_location(error: Exception, node: Node, name: str = "the call", env: Env | None = None) -> Exception:
    """Return the error to raise at the node; an error that has a location keeps it.

    `name` begins the message for a Python exception. `env` is the environment of the node; the error shows
    its bindings.
    """
    if isinstance(error, TaskFailed):
        return with_expression(error, node) if error.span is not NOWHERE else _locate(error, node, env)
    if isinstance(error, WeftError) or not isinstance(error, _CAUSED_BY_PROGRAMS):
        return error
    return _locate(_translate(error, name), node, env)


def with_expression(error: TaskFailed, node: Node) -> TaskFailed:
    """Return the error with the text of the expression at its location, if `node` contains that expression.

    Effects know locations, not nodes; so the tree is searched after a failure.
    """
    found = _node_at(node, error.span) if error.lacks_expression else None
    return error if found is None else error.with_expression(expression_of(found))


def _node_at(node: Node, span: Span) -> Node | None:
    stack: list[Any] = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, Node) and one.span is span:
            return one
        if isinstance(one, Struct) and not isinstance(one, Span):
            stack.extend(getattr(one, name) for name in reversed(one.__struct_fields__))
        elif isinstance(one, tuple):
            stack.extend(reversed(one))
    return None


def _locate(error: TaskFailed, node: Node, env: Env | None) -> TaskFailed:
    facts = {} if env is None else {"s_expression_environment": environment_at(env, node)}
    return error.at(node.span, expression_of(node), **facts)


def environment_at(env: Env, node: Node) -> dict[str, Any]:
    """Return the bindings at a node, shortened: the names among its arguments, then local ones.

    Functions are left out, and so is everything above the limits.
    """
    found: dict[str, Any] = {}
    for part in (node, *getattr(node, "args", ())[:MAX_NAMES]):
        if isinstance(part, Variable):
            with suppress(NameError):
                _add(found, part.name, env[part.name])
    scope, levels = env, 0
    while scope.outer is not None and len(found) < MAX_NAMES and levels < MAX_SCOPES:
        for name, value in islice(scope.items(), MAX_NAMES):
            if len(found) < MAX_NAMES:
                _add(found, name, value)
        scope, levels = scope.outer, levels + 1
    return found


def _add(found: dict[str, Any], name: str, value: Any) -> None:
    if name not in found and is_data(value):
        found[name] = _shorten(value)


def _shorten(value: Any) -> Any:
    """Return a short form of a value; short values stay as they are."""
    if isinstance(value, TaskResult):
        value = value.value
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        if len(parts) > MAX_ITEMS or any(part.__class__ in (list, dict, TaskResult) for part in parts):
            return f"{kind_of(value)} of {len(parts)} items"
        shown = [_shorten(part) for part in parts]
        return dict(zip(value, shown, strict=True)) if isinstance(value, dict) else shown
    if isinstance(value, str):
        # A symbol becomes plain text, because errors are encoded as JSON.
        return cut(str(value), MAX_SHOWN_CHARACTERS)
    is_long = isinstance(value, int) and value.bit_length() > MAX_SHOWN_CHARACTERS
    return value if value.__class__ in SCALARS and not is_long else kind_of(value)


def _translate(error: Exception, name: str) -> ProgramError:
    """Return a Python exception as an error of the language."""
    if isinstance(error, RecursionError):
        return too_deep()
    if isinstance(error, MemoryError):
        return exhausted("size", f"{name}: the result does not fit into memory")
    if isinstance(error, ZeroDivisionError):
        return program_error("bad-value", f"{name}: division by zero")
    if isinstance(error, OverflowError):
        return program_error("bad-value", f"{name}: the result is too large for a float")
    if isinstance(error, TypeError):
        return program_error("wrong-type", f"{name}: {error}")
    return program_error("bad-value", f"{name}: {error}")


def too_deep() -> ProgramError:
    """Return the error for calls that nest deeper than the stack allows."""
    message = "calls are nested too deeply; a call in tail position would not use the stack"
    return exhausted("depth", message, frames=FRAMES)


def unbound(name: str, env: Env, node: Node) -> TaskFailed:
    """Return the error for an unbound name."""
    known: dict[str, None] = {}
    templates: dict[str, None] = {}
    for scope in env.chain():
        known.update(dict.fromkeys(scope))
        library = getattr(scope, "library", None)
        templates.update(dict.fromkeys(library.tasks if library is not None else ()))
    form = why_no_value(name)
    hint = f"; {form}" if form is not None else nearest(name, templates) or nearest(name, known)
    error = program_error("unbound-name", f"'{name}' is not bound{hint}")
    return _locate(error, node, env)


def expression_of(node: Node) -> str:
    """Return the text of a node on one line, shortened."""
    span = node.span
    start = max(0, span.column - 1)
    # The source text, for a node that has only a location or cannot be printed.
    text = span.source.line(span.line)[start : start + 2 * MAX_SHOWN_CHARACTERS]
    if type(node) is not Node:
        with suppress(InvalidProgram):  # too deep to be printed, or built in Python without source text
            text = print_node(Truncation().node(node))
    text = " ".join(text.split())
    return cut(text, MAX_SHOWN_CHARACTERS)
