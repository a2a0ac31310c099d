"""Walk a tree: the names it uses, and stack space for deep ones."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from weft.language.ast import (
    DirectorEvaluatorLoop,
    FunctionCall,
    GetContext,
    Node,
    Reference,
    TaskCond,
    TaskNode,
    Variable,
)

SPAWN_TOOL = "system:spawn_subtask"
"""A task with this tool names its templates while it runs."""


class UsedNames(Struct, frozen=True):
    """What a tree names, be it bound there or elsewhere."""

    called: frozenset[str]
    """In a call or a `ref`."""
    mentioned: frozenset[str]
    """As a variable: a template is a value, too."""
    is_acting: bool
    """Whether it holds a task, a query of memory or a call of a name with a namespace: perhaps a tool."""
    is_choosing: bool
    """Whether it may choose a template while it runs: by criteria, or for a subtask."""


def structs_in(nodes: Iterable[Any]) -> Iterator[Struct]:
    """Yield the nodes and everything in them; the trees may be deep."""
    stack: list[Any] = list(nodes)
    while stack:
        one = stack.pop()
        if isinstance(one, Struct):
            yield one
            stack.extend(getattr(one, name) for name in one.__struct_fields__ if name != "span")
        elif isinstance(one, Sequence) and not isinstance(one, str | bytes):
            stack.extend(one)


def used_names(nodes: Iterable[Node]) -> UsedNames:
    """The names that the nodes use; the trees may be deep."""
    called: set[str] = set()
    mentioned: set[str] = set()
    is_acting = is_choosing = False
    for one in structs_in(nodes):
        if isinstance(one, FunctionCall):
            called.add(one.func_name)
        elif isinstance(one, Reference):
            called.add(one.ref)
        elif isinstance(one, Variable):
            mentioned.add(one.name)
        is_acting = is_acting or _acts(one)
        is_choosing = is_choosing or _chooses(one)
    return UsedNames(frozenset(called), frozenset(mentioned), is_acting, is_choosing)


def _acts(node: Any) -> bool:
    if isinstance(node, FunctionCall):
        return ":" in node.func_name
    return isinstance(node, TaskNode | TaskCond | GetContext)


def _chooses(node: Any) -> bool:
    if isinstance(node, DirectorEvaluatorLoop) and node.evaluator is None:
        return True
    if isinstance(node, TaskCond) and node.criteria is not None:
        return True
    return isinstance(node, TaskNode) and SPAWN_TOOL in node.tools


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
