"""The syntax tree as JSON, and as lines for people."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import NODEFAULT, UNSET, Struct

from weft.language.ast import Node, Program
from weft.language.diagnostics import refuse
from weft.language.source import NOWHERE, Span
from weft.language.traversal import deep_stack

JsonTree = dict[str, Any]

KIND = "node"
"""The key that says what a node is; values that are no nodes have none."""


def program_data(program: Program) -> JsonTree:
    """The program as JSON: each node with its kind, its place, and what was written of its fields."""
    try:
        with deep_stack():
            return {"forms": [_data(form) for form in program.forms]}
    except RecursionError:
        raise refuse(NOWHERE, "program-too-deep", "the tree nests too deep to be printed") from None


def program_lines(program: Program) -> Iterator[str]:
    """The program as lines, each node on one of its own, indented by its depth."""
    with deep_stack():
        for form in program_data(program)["forms"]:
            yield from _lines(form, "", "")


def _data(value: Any) -> Any:
    if isinstance(value, Struct):
        return _struct(value)
    if isinstance(value, tuple):
        return [_data(one) for one in value]
    return str(value) if isinstance(value, str) else value


def _struct(value: Struct) -> JsonTree:
    data: JsonTree = {KIND: type(value).__name__} if isinstance(value, Node) else {}
    place = getattr(value, "span", None)
    if isinstance(place, Span) and isinstance(value, Node):
        data |= {"line": place.line, "column": place.column}
    for name, default in _defaults(type(value)):
        given = getattr(value, name)
        if name != "span" and given is not UNSET and (given != default or type(given) is not type(default)):
            data[name] = _data(given)
    return data


@cache
def _defaults(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """The fields of a struct, each with its default. (`msgspec.structs.fields` resolves their types, which
    are known only to type checkers.)"""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    return tuple(zip(names, (NODEFAULT,) * (len(names) - len(defaults)) + defaults, strict=True))


def _lines(value: Any, label: str, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        place = f"  {value['line']}:{value['column']}" if KIND in value else ""
        yield f"{indent}{label}{value.get(KIND, '')}{place}".rstrip()
        for name, one in value.items():
            if name not in {KIND, "line", "column"}:
                yield from _lines(one, f"{name}: ", f"{indent}  ")
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        yield f"{indent}{label}".rstrip()
        for one in value:
            yield from _lines(one, "- ", f"{indent}  ")
    else:
        yield f"{indent}{label}{json.dumps(value, ensure_ascii=False)}"
