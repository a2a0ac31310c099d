"""Options of tasks as keyword arguments, and shapes from Python types."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from weft.language.ast import FilePaths, Input, Text
from weft.language.builder.nodes import as_node, as_text
from weft.language.diagnostics import InvalidProgram, LanguageProblem, invalid_program, nearest
from weft.language.fields import TASK_FIELDS, Field, Kind, by_keyword, join_output_format
from weft.language.options import READERS, Reader, read_boolean, read_files, wrong_type
from weft.language.source import Span

_SHAPES_BY_TYPE: dict[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    dict[str, Any]: "object",
    list[Any]: "array",
    list[str]: "string[]",
    list[float]: "number[]",
    list[bool]: "boolean[]",
    list[dict]: "object[]",  # type: ignore[type-arg]  # a common spelling
    list[dict[str, Any]]: "object[]",
}


def shape_of_type(annotation: Any, span: Span) -> str | None:
    """Return the shape of a Python type: a schema name or a JSON Schema; None for `Any` and `None`."""
    if annotation is None or annotation is Any or annotation is type(None):
        return None
    try:
        if annotation in _SHAPES_BY_TYPE:
            return _SHAPES_BY_TYPE[annotation]
        return normal_schema(msgspec.json.schema(annotation))
    except TypeError as error:
        raise invalid_program(span, "bad-value", f"{annotation!r} has no JSON Schema: {error}") from None


def shape_text(shape: Any, span: Span) -> str | None:
    """Return a shape in stored form: a name or path unchanged, a JSON Schema as text, a type as its shape."""
    if isinstance(shape, dict):
        return normal_schema(shape)
    if not isinstance(shape, str):
        return shape_of_type(shape, span)
    if not shape.lstrip().startswith("{"):
        return shape
    try:
        return normal_schema(json.loads(shape))
    except (ValueError, RecursionError) as error:
        raise invalid_program(span, "bad-value", f"the schema is not JSON: {error}") from None


def normal_schema(schema: Any) -> str:
    """Serialise a JSON Schema without spaces; the order of properties matters to models and is kept."""
    return json.dumps(schema, separators=(",", ":"), ensure_ascii=False)


def task_fields(options: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """Convert keyword arguments to fields of a node; raise InvalidProgram with all problems."""
    fields: dict[str, Any] = {}
    problems: list[LanguageProblem] = []
    for name, value in options.items():
        field = _OPTIONS.get(name)
        try:
            if field is None:
                message = f"a task has no option '{name}'{nearest(name, _OPTIONS)}"
                raise invalid_program(span, "unknown-keyword", message)
            fields[field.name] = _READERS[field.kind](field, value, span, name)
        except InvalidProgram as error:
            problems += error.found
    if problems:
        raise InvalidProgram(problems)
    return join_output_format(fields)


_OPTIONS = {field.option: field for field in by_keyword(TASK_FIELDS).values()}


def _read_text(field: Field, value: Any, span: Span, name: str) -> Text:
    return as_text(value, span, name)


_SOURCES = ("command", "description", "context_description")


def _read_files(field: Field, value: Any, span: Span, name: str) -> FilePaths:
    if not isinstance(value, Mapping):
        return read_files(value, span, name, as_text)
    if len(value) != 1 or not value.keys() <= set(_SOURCES):
        message = f"{name} must be a list of paths, or have one of {', '.join(_SOURCES)}"
        raise invalid_program(span, "bad-value", message)
    [(source, one)] = value.items()
    return FilePaths(source, (), as_text(one, span, source))


def _read_inputs(field: Field, value: Any, span: Span, name: str) -> tuple[Input, ...]:
    pairs = _named(value, span, name)
    return tuple(Input(one, None if given is ... else as_node(given), span) for one, given in pairs)


def _read_relevance(field: Field, value: Any, span: Span, name: str) -> tuple[tuple[str, bool], ...]:
    pairs = _named(value, span, name)
    return tuple((one, read_boolean(field, is_on, span, f"{name}: {one}")) for one, is_on in pairs)


def _named(value: Any, span: Span, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and all(isinstance(one, str) for one in value):
        return list(value.items())
    raise wrong_type("a dict with the names of inputs as keys", value, span, name)


_READERS: Mapping[Kind, Reader] = {
    **READERS,
    "text": _read_text,
    "shape": lambda _, value, span, name: shape_text(value, span),
    "inputs": _read_inputs,
    "relevance": _read_relevance,
    "files": _read_files,
}
