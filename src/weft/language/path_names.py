"""The names of a program whose values are paths of files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from weft.language.task_fields import FilePaths
from weft.language.tree import (
    Apply,
    Assign,
    Define,
    FunctionCall,
    Input,
    Lambda,
    Let,
    Node,
    Reference,
    Template,
    Text,
    Variable,
)
from weft.language.used_names import structs_in

_APPLYING = frozenset({"map", "filter", "for-each", "apply"})
"""Built-ins that hand the elements of lists, or lists, to a function."""

_Name = tuple[str, str]
"""The template that has a parameter of that name, or "", and the name."""


def path_names(nodes: Sequence[Node]) -> frozenset[str]:
    """Return the names whose values are paths of files.

    They fill a path of `file_paths` alone, stand in `:files` of a call, or are handed on, by themselves or in
    a list, to a name whose value is one: a parameter, an input, what `let` binds. Names of templates are
    told apart; of two local names that are the same, both count.
    """
    found: set[_Name] = set()
    handed: list[tuple[_Name, _Name]] = []
    parameters = _parameters(nodes)
    for owner, body in _bodies(nodes):
        own = frozenset(parameters.get(owner, ()))
        for one in structs_in([body]):
            if isinstance(one, FilePaths):
                found |= {_named(name, owner, own) for path in one.paths for name in _handed(path)}
            elif isinstance(one, FunctionCall):
                files = [value for keyword, value in one.keywords if keyword == "files"]
                variables = [node.name for node in structs_in(files) if isinstance(node, Variable)]
                found |= {_named(name, owner, own) for name in variables}
            handed += [
                (_named(name, owner, own) if to is None else (to, name), _named(value, owner, own))
                for to, name, node in _bound(one, parameters)
                for value in _handed(node)
            ]
    while more := {value for name, value in handed if name in found} - found:
        found |= more
    return frozenset(name for owner, name in found if not owner)


def _named(name: str, owner: str, own: frozenset[str]) -> _Name:
    return (owner, name) if name in own else ("", name)


def _parameters(nodes: Sequence[Node]) -> dict[str, tuple[str, ...]]:
    """Return the names of the parameters of every template and named function."""
    found: dict[str, tuple[str, ...]] = {}
    for one in structs_in(nodes):
        if isinstance(one, Template):
            found[one.name] = tuple(parameter.name for parameter in one.parameters)
        elif isinstance(one, Define) and isinstance(one.value, Lambda):
            found[one.name] = one.value.parameters
    return found


def _bodies(nodes: Iterable[Node]) -> Iterator[tuple[str, Node]]:
    """Yield what each template and function of the program does, and everything else, with its owner."""
    for node in nodes:
        if isinstance(node, Template):
            yield node.name, node.body
        elif isinstance(node, Define) and isinstance(node.value, Lambda):
            yield node.name, node.value.body
        else:
            yield "", node


def _bound(node: Struct, parameters: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str | None, str, Node]]:
    """Yield names that a node binds, each with its value and the template or function whose name it is."""
    match node:
        case FunctionCall(func_name=name, args=[function, *args]) if name in _APPLYING:
            yield from _called(function, args, (), parameters)
        case FunctionCall(func_name=name, args=args, keywords=keywords):
            yield from _called(Variable(name=name), args, keywords, parameters)
        case Apply(function=function, args=args, keywords=keywords):
            yield from _called(function, args, keywords, parameters)
        case Reference(ref=ref, inputs=inputs):
            yield from ((ref, one.name, one.value) for one in inputs if one.value is not None)
        case Let(bindings=bindings):
            yield from ((None, name, value) for name, value in bindings)
        case Input(name=name, value=value) if value is not None:
            yield None, name, value
        case Define(name=name, value=value) | Assign(name=name, value=value):
            yield None, name, value


def _called(
    function: Node,
    args: Sequence[Node],
    keywords: Iterable[tuple[str, Node]],
    parameters: Mapping[str, tuple[str, ...]],
) -> Iterator[tuple[str | None, str, Node]]:
    if isinstance(function, Lambda):
        yield from ((None, name, value) for name, value in zip(function.parameters, args, strict=False))
    elif isinstance(function, Variable) and function.name in parameters:
        by_position = zip(parameters[function.name], args, strict=False)
        yield from ((function.name, name, value) for name, value in [*by_position, *keywords])


def _handed(node: Any) -> Iterator[str]:
    """Yield the variables whose values a node has: one, or those of a list."""
    match node:
        case Variable(name=name):
            yield name
        case Text(parts=[Variable(name=name)]):
            yield name
        case FunctionCall(func_name="list", args=args):
            for one in args:
                yield from _handed(one)
