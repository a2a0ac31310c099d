"""Options of tasks as keyword arguments, and shapes from Python types."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

import msgspec

from weft.language.ast import FilePaths, Input, Text
from weft.language.builder.nodes import as_node, as_text
from weft.language.diagnostics import InvalidProgram, LanguageProblem, invalid_program, nearest
from weft.language.fields import context_conflict
from weft.language.source import Span
from weft.language.task_fields import (
    AccumulationFormat,
    ContextAssembly,
    ContextOverrides,
    FreshContext,
    HistorySettings,
    InheritContext,
    OutputFormat,
)

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


class TaskOptions(TypedDict, total=False):
    """Keyword arguments of all builders of tasks."""

    description: str | Text
    instructions: str | Text
    system: str | Text
    subtype: str
    model: str
    provider: str
    criteria: str
    inputs: Mapping[str, Any]
    """Values by name; `...` stands for an input that the caller passes."""
    output: Literal["json", "text"]
    schema: Any
    """A name, a path, a JSON Schema as a dict or text, or a Python type."""
    output_slot: str
    input_source: str
    context: Mapping[str, Any]
    """`inherit`, `accumulate`, `format`, `fresh`."""
    relevance: Mapping[str, bool]
    assembly: Mapping[str, str]
    """`primary`, `secondary`, `excluded`."""
    files: Sequence[str | Mapping[str, str | bool]] | Mapping[str, str]
    """A list of paths, or a dict with `command`, `description` or `context_description`."""
    history: Mapping[str, Any]
    """`use`, `turns`, `record`."""
    tools: Sequence[str]
    timeout: float
    """In seconds."""
    max_depth: int
    """Maximum nesting of subtasks spawned by the model."""
    reuse: bool
    manual_xml: bool
    disable_reparsing: bool


def task_fields(options: Mapping[str, Any], span: Span) -> dict[str, Any]:
    """Convert keyword arguments to fields of a node; raise InvalidProgram with all problems."""
    fields: dict[str, Any] = {}
    problems: list[LanguageProblem] = []
    for name, value in options.items():
        reader = _READERS.get(name)
        try:
            if reader is None:
                message = f"a task has no option '{name}'{nearest(name, _READERS)}"
                raise invalid_program(span, "unknown-keyword", message)
            fields[reader[0]] = reader[1](value, span, name)
        except InvalidProgram as error:
            problems += error.found
    if problems:
        raise InvalidProgram(problems)
    kind, schema = fields.pop("output", None), fields.pop("schema", None)
    if kind is not None or schema is not None:
        fields["output_format"] = OutputFormat(kind or "json", schema)
    return fields


Reader = Callable[[Any, Span, str], Any]
"""Converts an option to the value of a field: (value, location, name of the option)."""


def _of_type(*kinds: type) -> Reader:
    wanted = " or ".join(kind.__name__ for kind in kinds)

    def read(value: Any, span: Span, name: str) -> Any:
        if isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool)):
            return value
        raise invalid_program(span, "wrong-type", f"{name} must be {wanted}, not {type(value).__name__}")

    return read


def _one_of(known: Sequence[str], aliases: Mapping[str, str] | None = None) -> Reader:
    def read(value: Any, span: Span, name: str) -> str:
        word = (aliases or {}).get(value, value) if isinstance(value, str) else None
        if word in known and isinstance(word, str):
            return word
        choices = ", ".join(f'"{one}"' for one in known)
        raise invalid_program(
            span, "bad-value", f"{name} must be one of {choices}{nearest(str(value), known)}"
        )

    return read


def _number_reader(*kinds: type, least: float | None = None) -> Reader:
    """Return a reader of numbers that are at least `least`; above 0, if that is not given."""
    read_number = _of_type(*kinds)

    def read(value: Any, span: Span, name: str) -> Any:
        number = read_number(value, span, name)
        if number > 0 if least is None else number >= least:
            return number
        wanted = "above 0" if least is None else f"at least {least:g}"
        raise invalid_program(span, "bad-value", f"{name} must be {wanted}")

    return read


def _settings_reader(readers: Mapping[str, Reader]) -> Callable[[Any, Span, str], dict[str, Any]]:
    def read(value: Any, span: Span, name: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise invalid_program(span, "wrong-type", f"{name} must be a dict with {', '.join(readers)}")
        for word in value:
            if word not in readers:
                raise invalid_program(
                    span, "unknown-keyword", f"{name} has no '{word}'{nearest(str(word), readers)}"
                )
        return {word: readers[word](one, span, f"{name}[{word!r}]") for word, one in value.items()}

    return read


_STRING, _BOOLEAN = _of_type(str), _of_type(bool)
_CONTEXT = _settings_reader(
    {
        "inherit": _one_of(get_args(InheritContext)),
        "accumulate": _BOOLEAN,
        "format": _one_of(get_args(AccumulationFormat), {"full": "full_output", "minimal": "notes_only"}),
        "fresh": _one_of(get_args(FreshContext)),
    }
)
_HISTORY = _settings_reader({"use": _BOOLEAN, "turns": _number_reader(int, least=1), "record": _BOOLEAN})
_ASSEMBLY = _settings_reader(dict.fromkeys(("primary", "secondary", "excluded"), _STRING))


def _text(value: Any, span: Span, name: str) -> Text:
    return as_text(value, span, name)


_FILES = _settings_reader(dict.fromkeys(("command", "description", "context_description"), _text))


def _context(value: Any, span: Span, name: str) -> ContextOverrides:
    found = _CONTEXT(value, span, name)
    overrides = ContextOverrides(
        found.get("inherit"), found.get("accumulate"), found.get("format"), found.get("fresh")
    )
    if problem := context_conflict(overrides, span):
        raise InvalidProgram([problem])
    return overrides


def _history(value: Any, span: Span, name: str) -> HistorySettings:
    found = _HISTORY(value, span, name)
    return HistorySettings(found.get("use", True), found.get("turns"), found.get("record", True))


def _assembly(value: Any, span: Span, name: str) -> ContextAssembly:
    found = _ASSEMBLY(value, span, name)
    return ContextAssembly(**{f"{word}_elements": one for word, one in found.items()})


def _files(value: Any, span: Span, name: str) -> FilePaths:
    if not isinstance(value, Mapping):
        items = [_file(one, span, name) for one in _items(value, span, name)]
        optional = tuple(n for n, (_, is_optional) in enumerate(items) if is_optional)
        return FilePaths("literal", tuple(path for path, _ in items), optional=optional)
    found = _FILES(value, span, name)
    if len(found) != 1:
        message = (
            f"{name} must be a list of paths, or have one of command, description and context_description"
        )
        raise invalid_program(span, "bad-value", message)
    [(source, one)] = found.items()
    return FilePaths(source, (), one)  # type: ignore[arg-type]  # one of the three


def _file(value: Any, span: Span, name: str) -> tuple[Text, bool]:
    """Return a path, and whether it may be missing: `"a.py"` or `{"path": "a.py", "optional": True}`."""
    if not isinstance(value, Mapping):
        return as_text(value, span, name), False
    if "path" not in value or value.keys() - {"path", "optional"}:
        raise invalid_program(
            span, "bad-value", f'a file of {name} must be a path or {{"path": ..., "optional": True}}'
        )
    return as_text(value["path"], span, name), value.get("optional") is True


def _inputs(value: Any, span: Span, name: str) -> tuple[Input, ...]:
    pairs = _named(value, span, name)
    return tuple(Input(one, None if given is ... else as_node(given), span) for one, given in pairs)


def _relevance(value: Any, span: Span, name: str) -> tuple[tuple[str, bool], ...]:
    return tuple((one, _BOOLEAN(is_on, span, name)) for one, is_on in _named(value, span, name))


def _named(value: Any, span: Span, name: str) -> list[tuple[str, Any]]:
    if isinstance(value, Mapping) and all(isinstance(one, str) for one in value):
        return list(value.items())
    raise invalid_program(span, "wrong-type", f"{name} must be a dict with the names of inputs as keys")


def _items(value: Any, span: Span, name: str) -> Sequence[Any]:
    if isinstance(value, list | tuple):
        return value
    raise invalid_program(span, "wrong-type", f"{name} must be a list, not {type(value).__name__}")


def _tools(value: Any, span: Span, name: str) -> tuple[str, ...]:
    return tuple(_STRING(one, span, name) for one in _items(value, span, name))


def _seconds(value: Any, span: Span, name: str) -> float:
    seconds = _number_reader(int, float)(value, span, name)
    if seconds > sys.float_info.max:
        raise invalid_program(span, "bad-value", f"{name} must be a finite number of seconds")
    return float(seconds)


def _schema(value: Any, span: Span, name: str) -> str | None:
    return shape_text(value, span)


_READERS: Mapping[str, tuple[str, Reader]] = {
    "description": ("description", _text),
    "instructions": ("instructions", _text),
    "system": ("system", _text),
    "subtype": ("subtype", _STRING),
    "model": ("model", _STRING),
    "provider": ("provider", _STRING),
    "criteria": ("criteria", _STRING),
    "inputs": ("inputs", _inputs),
    "output": ("output", _one_of(("json", "text"))),
    "schema": ("schema", _schema),
    "output_slot": ("output_slot", _STRING),
    "input_source": ("input_source", _STRING),
    "context": ("context", _context),
    "relevance": ("context_relevance", _relevance),
    "assembly": ("context_assembly", _assembly),
    "files": ("file_paths", _files),
    "history": ("history", _history),
    "tools": ("tools", _tools),
    "timeout": ("timeout_seconds", _seconds),
    "max_depth": ("max_depth", _number_reader(int, least=1)),
    "reuse": ("reuse", _BOOLEAN),
    "manual_xml": ("manual_xml", _BOOLEAN),
    "disable_reparsing": ("disable_reparsing", _BOOLEAN),
}
"""By option: the field of the node (`output` and `schema` share one), and the function that converts it."""
