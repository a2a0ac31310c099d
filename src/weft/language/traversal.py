"""Traversal of syntax trees: the names that they use, and a recursion limit for deep trees."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec import Struct

from weft.language import ast

SPAWN_TOOL = "system:spawn_subtask"
"""A task with this tool chooses templates at run time."""


class UsedNames(Struct, frozen=True):
    """The names that a tree uses, bound there or elsewhere."""

    called: frozenset[str]
    """Names in calls and in `ref`."""
    mentioned: frozenset[str]
    """Names used as variables; a variable may hold a template."""
    is_acting: bool
    """Whether the tree may have effects: it has a task, a query of memory or a call with a namespace."""
    is_choosing: bool
    """Whether the tree may choose a template at run time, by criteria or for a subtask."""


def structs_in(nodes: Iterable[Any]) -> Iterator[Struct]:
    """Yield the nodes and all structs inside them. Does not recurse, so trees may be deep."""
    stack: list[Any] = list(nodes)
    while stack:
        one = stack.pop()
        if isinstance(one, Struct):
            yield one
            stack.extend(getattr(one, name) for name in one.__struct_fields__ if name != "span")
        elif isinstance(one, Sequence) and not isinstance(one, str | bytes):
            stack.extend(one)


def used_names(nodes: Iterable[ast.Node]) -> UsedNames:
    """Collect the names that the nodes use. Does not recurse, so trees may be deep."""
    called: set[str] = set()
    mentioned: set[str] = set()
    is_acting = is_choosing = False
    for one in structs_in(nodes):
        if isinstance(one, ast.FunctionCall):
            called.add(one.func_name)
        elif isinstance(one, ast.Reference):
            called.add(one.ref)
        elif isinstance(one, ast.Variable):
            mentioned.add(one.name)
        is_acting = is_acting or _is_acting(one)
        is_choosing = is_choosing or _is_choosing(one)
    return UsedNames(frozenset(called), frozenset(mentioned), is_acting, is_choosing)


def _is_acting(node: Any) -> bool:
    if isinstance(node, ast.FunctionCall):
        return ":" in node.func_name
    return isinstance(node, ast.TaskNode | ast.TaskCond | ast.GetContext)


def _is_choosing(node: Any) -> bool:
    if isinstance(node, ast.DirectorEvaluatorLoop) and node.evaluator is None:
        return True
    if isinstance(node, ast.TaskCond) and node.criteria is not None:
        return True
    return isinstance(node, ast.TaskNode) and SPAWN_TOOL in node.tools


N = TypeVar("N", bound=ast.Node)


def reachable_definitions(forms: Sequence[ast.Node], named: Mapping[str, N]) -> dict[str, N]:
    """Return the definitions that forms can reach, by name; all if they choose templates when they run."""
    reached: dict[str, N] = {}
    while forms:
        used = used_names(forms)
        wanted = named.keys() if used.is_choosing else used.called | used.mentioned
        fresh = {name: form for name, form in named.items() if name in wanted and name not in reached}
        reached |= fresh
        forms = list(fresh.values())
    return {name: form for name, form in named.items() if name in reached}


FRAMES = 20_000
"""The recursion limit for programs. Python frames are on the heap: this bounds memory, not the C stack."""


@contextmanager
def raise_recursion_limit() -> Iterator[None]:
    """Raise Python's recursion limit, so that code inside `with` can recurse as deep as programs may nest.

    The limit applies to all threads and is never lowered again: another thread may be in a deep recursion.
    """
    if sys.getrecursionlimit() < FRAMES:
        sys.setrecursionlimit(FRAMES)
    yield
