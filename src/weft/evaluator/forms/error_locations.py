"""Give errors a location: what a built-in raises becomes an error at the node it came from."""

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

_MOST = MAX_SHOWN_CHARACTERS + 1
"""Every node, item and character that is kept prints as one character at least: more cannot be seen."""


def clipped(node: Node) -> Node:
    """The node as far as the beginning of its text needs it; itself when it is small."""
    return _Clip().node(node)


class _Clip:
    def __init__(self) -> None:
        self._left = _MOST

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
            return value if len(value) <= _MOST else value[:_MOST]
        if isinstance(value, Node):
            return self.node(value)
        if value.__class__ is tuple:
            return _changed(value, [self._part(item) for item in value[:_MOST]])
        if isinstance(value, Struct) and not isinstance(value, Span):
            return self._fields(value)
        return value

    def _datum(self, datum: Any) -> Any:
        self._left -= 1
        if datum.__class__ is not tuple:
            return self._part(datum)
        return _changed(datum, [self._datum(item) for item in datum[: max(0, self._left)]])


def _changed(before: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """The items as a tuple; what was there before if they are the same."""
    if len(before) == len(items) and all(map(lambda one, other: one is other, before, items)):
        return before
    return tuple(items)


_CAUSED_BY_PROGRAMS = (
    ArithmeticError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What Python raises for values that do not fit. Anything else is a bug of ours."""


MAX_NAMES = 20
MAX_SCOPES = 50
MAX_ITEMS = 10
"""How much of what was bound an error shows: errors are kept in records, and in those of what they end."""


def with_location(error: Exception, node: Node, name: str = "the call", env: Env | None = None) -> Exception:
    """Return the error as it is to be raised at the node. An error that has a place keeps it.

    `env` is where the node was evaluated: the error says what was bound there.
    """
    if isinstance(error, TaskFailed):
        return expressed(error, node) if error.span is not NOWHERE else _at(error, node, env)
    if isinstance(error, WeftError) or not isinstance(error, _CAUSED_BY_PROGRAMS):
        return error
    return _at(_translated(error, name), node, env)


def expressed(error: TaskFailed, node: Node) -> TaskFailed:
    """Return the error with the text of the node in which it has its place, if that is inside this one.

    What performs tasks knows places, not nodes; the tree is searched only where something has failed.
    """
    found = _node_at(node, error.span) if error.lacks_expression else None
    return error if found is None else error.of(expression_of(found))


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


def _at(error: TaskFailed, node: Node, env: Env | None) -> TaskFailed:
    facts = {} if env is None else {"s_expression_environment": environment_at(env, node)}
    return error.at(node.span, expression_of(node), **facts)


def environment_at(env: Env, node: Node) -> dict[str, Any]:
    """Return what was bound at a node: the names among its arguments, then local ones, each shortened.

    Functions are left out, and what is more than a person reads.
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
        found[name] = _brief(value)


def _brief(value: Any) -> Any:
    """Return a value in a few words: itself when it is short."""
    if isinstance(value, TaskResult):
        value = value.value
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        if len(parts) > MAX_ITEMS or any(part.__class__ in (list, dict, TaskResult) for part in parts):
            return f"{kind_of(value)} of {len(parts)} items"
        shown = [_brief(part) for part in parts]
        return dict(zip(value, shown, strict=True)) if isinstance(value, dict) else shown
    if isinstance(value, str):
        return cut(str(value), MAX_SHOWN_CHARACTERS)  # a symbol as plain text: errors are encoded as JSON
    return value if value.__class__ in SCALARS and not _is_long(value) else kind_of(value)


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and value.bit_length() > MAX_SHOWN_CHARACTERS


def _translated(error: Exception, name: str) -> ProgramError:
    """An exception of Python in the words of the language."""
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
    """The error for calls that nest deeper than there is stack for."""
    message = "calls nest too deeply; a call in tail position takes no room"
    return exhausted("depth", message, frames=FRAMES)


def unbound(name: str, env: Env, node: Node) -> TaskFailed:
    """The error for a name that nothing binds."""
    known: dict[str, None] = {}
    templates: dict[str, None] = {}
    scope: Env | None = env
    while scope is not None:
        known.update(dict.fromkeys(scope))
        library = getattr(scope, "library", None)
        templates.update(dict.fromkeys(library.tasks if library is not None else ()))
        scope = scope.outer
    form = why_no_value(name)
    hint = f"; {form}" if form is not None else nearest(name, templates) or nearest(name, known)
    error = program_error("unbound-name", f"'{name}' is not bound{hint}")
    return _at(error, node, env)


def expression_of(node: Node) -> str:
    """The text of a node on one line, shortened."""
    span = node.span
    start = max(0, span.column - 1)
    # For a node that is only a place.
    text = span.source.line(span.line)[start : start + 2 * MAX_SHOWN_CHARACTERS]
    if type(node) is not Node:
        with suppress(InvalidProgram):  # too deep to be printed, or made in Python and of no text
            text = print_node(clipped(node))
    text = " ".join(text.split())
    return cut(text, MAX_SHOWN_CHARACTERS)
