"""The names that a tree uses: which templates it may need."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeGuard

from msgspec import Struct

from weft.language.task_fields import FilePaths
from weft.language.tree import (
    DirectorEvaluatorLoop,
    FunctionCall,
    GetContext,
    Node,
    Reference,
    TaskCond,
    TaskNode,
    Template,
    Text,
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


def path_names(nodes: Sequence[Node]) -> frozenset[str]:
    """Return the names whose values are paths of files: they fill a path of `file_paths` alone, stand in
    `:files` of a call, or are passed for a parameter that does either."""
    found: set[str] = set()
    calls: list[FunctionCall] = []
    parameters: dict[str, list[str]] = {}
    for one in _structs(nodes):
        if isinstance(one, FilePaths):
            found |= {part.name for path in one.paths for part in path.parts if _is_alone(part, path)}
        elif isinstance(one, Template):
            parameters[one.name] = [parameter.name for parameter in one.parameters]
        elif isinstance(one, FunctionCall):
            calls.append(one)
            found |= {
                node.name
                for keyword, value in one.keywords
                if keyword == "files"
                for node in _structs([value])
                if isinstance(node, Variable)
            }
    passed = [
        (name, argument.name)
        for call in calls
        for name, argument in [
            *zip(parameters.get(call.func_name, ()), call.args, strict=False),
            *call.keywords,
        ]
        if isinstance(argument, Variable)
    ]
    while more := {argument for name, argument in passed if name in found} - found:
        found |= more
    return frozenset(found)


def _is_alone(part: Any, path: Text) -> TypeGuard[Variable]:
    return isinstance(part, Variable) and len(path.parts) == 1


def _structs(nodes: Iterable[Any]) -> Iterator[Struct]:
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
    for one in _structs(nodes):
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
