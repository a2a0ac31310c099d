"""Dumps of the syntax tree as JSON and as indented lines."""

import json
from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct

from weft.language.ast import Node, Program
from weft.language.diagnostics import invalid_program
from weft.language.fields import defaults_of
from weft.language.source import NOWHERE
from weft.language.traversal import raise_recursion_limit

JsonTree = dict[str, Any]

KIND = "node"
"""The key that holds the type of a node; values that are not nodes do not have it."""


def program_data(program: Program) -> JsonTree:
    """Return a program as JSON: type and location of each node, and fields that differ from defaults."""
    try:
        with raise_recursion_limit():
            return {"forms": [_to_json(form) for form in program.forms]}
    except RecursionError:
        raise invalid_program(
            NOWHERE, "program-too-deep", "the tree is nested too deeply to be printed"
        ) from None


def program_lines(program: Program) -> Iterator[str]:
    """Yield the program as lines, one per node, indented by depth."""
    with raise_recursion_limit():
        for form in program_data(program)["forms"]:
            yield from _format_lines(form, "", "")


def _to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_json(one) for one in value]
    if not isinstance(value, Struct):
        return str(value) if isinstance(value, str) else value
    data: JsonTree = {KIND: type(value).__name__} if isinstance(value, Node) else {}
    if isinstance(value, Node):
        data |= {"line": value.span.line, "column": value.span.column}
    for name, default in defaults_of(type(value)).items():
        field = getattr(value, name)
        if name != "span" and field is not UNSET and (field != default or type(field) is not type(default)):
            data[name] = _to_json(field)
    return data


def _format_lines(value: Any, label: str, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        location = f"  {value['line']}:{value['column']}" if KIND in value else ""
        yield f"{indent}{label}{value.get(KIND, '')}{location}".rstrip()
        for name, one in value.items():
            if name not in {KIND, "line", "column"}:
                yield from _format_lines(one, f"{name}: ", f"{indent}  ")
    elif isinstance(value, list) and any(isinstance(one, dict | list) for one in value):
        yield f"{indent}{label}".rstrip()
        for one in value:
            yield from _format_lines(one, "- ", f"{indent}  ")
    else:
        yield f"{indent}{label}{json.dumps(value, ensure_ascii=False)}"
