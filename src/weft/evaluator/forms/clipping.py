"""Nodes cut down to what is shown: an error in a call with thousands of arguments must not print them all."""

from typing import Any

import msgspec
from msgspec import Struct

from weft.language.spans import Span
from weft.language.tree import Node, Quote, Variable
from weft.limits import MAX_SHOWN_CHARACTERS

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
