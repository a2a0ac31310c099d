"""Shapes, which describe values: a name such as `string[]`, a JSON Schema, or the path of a schema file.

Also the JSON Schemas of a template's arguments and of its result.
"""

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import UNSET, Struct

from weft.errors import AuthorError
from weft.language.ast import Atomic, Node, Template
from weft.language.diagnostics import invalid_program, nearest
from weft.language.library import open_inputs
from weft.language.source import Span
from weft.language.task_fields import OutputFormat, Parameter
from weft.language.traversal import raise_recursion_limit
from weft.secrets.truncation import cut

JsonSchema = dict[str, Any] | bool

_OBJECT: JsonSchema = {"type": "object"}

NAMED_SCHEMAS: dict[str, JsonSchema] = {
    "object": _OBJECT,
    "array": {"type": "array"},
    "[]": {"type": "array"},
    "string[]": {"type": "array", "items": {"type": "string"}},
    "number[]": {"type": "array", "items": {"type": "number"}},
    "boolean[]": {"type": "array", "items": {"type": "boolean"}},
    "object[]": {"type": "array", "items": _OBJECT},
    "number": {"type": "number"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
}

MAX_VIOLATIONS = 20
"""How many violations are reported at most: a list may have a million wrong items."""

MAX_MESSAGE_CHARACTERS = 400
"""Bounds the validator's messages, which repeat the value."""


class BadSchema(AuthorError):
    """A declared output schema is not a known name, a valid JSON Schema, or a readable schema file."""

    code = "bad-schema"


class Violation(Struct, frozen=True):
    """One way in which a value violates a schema."""

    message: str
    location: str
    """A JSON Pointer; empty: the whole value."""

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class CompiledSchema:
    """A compiled JSON Schema."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema
        self._validator = _compile_validator(schema)

    def violations(self, value: Any) -> list[Violation]:
        """Validate a value and return at most MAX_VIOLATIONS violations; empty if it is valid."""
        found: list[Violation] = []
        try:
            for error in self._validator.iter_errors(value):
                pointer = "".join(f"/{_escaped(part)}" for part in error.instance_path)
                found.append(Violation(_cut(error.message), pointer))
                if len(found) == MAX_VIOLATIONS:
                    break
        except ValueError as error:  # too deep for the validator, or not JSON
            found.append(Violation(f"cannot be checked: {_cut(str(error))}", ""))
        return found


def parse_shape(text: str, read_file: Callable[[str], str] | None = None) -> CompiledSchema:
    """Return the shape for a name, a JSON Schema or, with `read_file`, a schema file. Raise BadSchema."""
    name = text.strip()
    if name in NAMED_SCHEMAS or _is_inline(name):
        return _parse_cached(name)
    if not is_path(name) or read_file is None:
        expected = "a JSON Schema, the path of a .json file, or one of " + " ".join(NAMED_SCHEMAS)
        raise BadSchema(f"'{_cut(name)}' is no shape; expected {expected}{nearest(name, NAMED_SCHEMAS)}")
    try:
        return _parse_cached(read_file(name).strip())
    except (OSError, UnicodeDecodeError) as error:
        raise BadSchema(f"the schema file '{name}' cannot be read: {error}") from None


def part_schema(shape: str | None) -> Any:
    """Return the JSON Schema of a shape, to be part of another schema.

    Return `{}`, which allows any value, for a schema with `$` keywords, a schema file or an invalid shape.
    """
    if shape is None or '"$' in shape:
        return {}
    try:
        return parse_shape(shape).schema
    except BadSchema:
        return {}


def is_path(text: str) -> bool:
    """Return whether a shape is the path of a schema file, and not a name or an inline JSON Schema."""
    name = text.strip()
    return not _is_inline(name) and (name.endswith(".json") or "/" in name or "\\" in name)


def _is_inline(name: str) -> bool:
    return name.startswith("{") or name in ("true", "false")


@lru_cache(maxsize=256)
def _parse_cached(text: str) -> CompiledSchema:
    named = NAMED_SCHEMAS.get(text)
    if named is not None:
        return CompiledSchema(named)
    try:
        return CompiledSchema(msgspec.json.decode(text, type=dict[str, Any] | bool))
    except (ValueError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BadSchema(f"the schema is not a usable JSON Schema: {_cut(reason)}") from None


def _compile_validator(schema: JsonSchema) -> Any:
    """Compile a validator for the draft that `$schema` names, else for the newest draft.

    `offline=True` because the library otherwise fetches remote and `file:` references. The backtracking limit
    bounds the time of regular expressions.
    """
    return jsonschema_rs.validator_for(
        schema,
        validate_formats=True,
        offline=True,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
    )


def _escaped(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _cut(text: str) -> str:
    return cut(text, MAX_MESSAGE_CHARACTERS)


ReadSchema = Callable[[str, str], str]
"""Returns the text of a schema file, given its path and the name of the program that uses it."""


def with_inlined_schemas(template: Template, read: ReadSchema) -> Template:
    """Return the template with every path of a schema file replaced by the JSON Schema in the file.

    Raise InvalidProgram if a file cannot be read.
    """
    with raise_recursion_limit():
        inlined: Template = _inline(template, template.span, read)
        return inlined


def _inline(one: Any, span: Span, read: ReadSchema) -> Any:
    """Return a copy with inlined schemas, or the same object if it contains no path of a schema file."""
    if isinstance(one, tuple):
        parts = tuple(_inline(part, span, read) for part in one)
        return one if all(map(operator.is_, parts, one)) else parts
    if not isinstance(one, Struct) or isinstance(one, Span):
        return one
    if isinstance(one, Node):
        span = one.span
    changes: dict[str, Any] = {}
    for name in one.__struct_fields__:
        before = getattr(one, name)
        is_shape = name == _SHAPE_FIELDS.get(type(one))
        after = _inline_shape(before, span, read) if is_shape else _inline(before, span, read)
        if after is not before:
            changes[name] = after
    return msgspec.structs.replace(one, **changes) if changes else one


_SHAPE_FIELDS: dict[type[Struct], str] = {OutputFormat: "schema", Parameter: "type", Template: "returns"}


def _inline_shape(shape: str | None, span: Span, read: ReadSchema) -> str | None:
    if shape is None or not is_path(shape):
        return shape
    try:
        schema = msgspec.json.decode(read(shape.strip(), span.source.name))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise invalid_program(span, "bad-value", f"schema file '{shape}': {reason}") from None
    return msgspec.json.encode(schema, order="sorted").decode()


def argument_schema(template: Template) -> dict[str, Any]:
    """Return a JSON Schema (draft-07) of the arguments that a caller may or must pass."""
    properties: dict[str, Any] = {}
    required = []
    for parameter in template.parameters:
        schema = part_schema(parameter.type)
        if parameter.default is UNSET:
            required.append(parameter.name)
        elif isinstance(schema, dict):
            schema = {**schema, "default": parameter.default}
        properties[parameter.name] = schema
    for name, is_needed in open_inputs(template).items():
        if name not in properties:
            properties[name] = {}
            required += [name] if is_needed else []
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def result_schema(template: Template) -> dict[str, Any]:
    """Return a JSON Schema of the TaskResult, with `parsedContent` as the template declares it."""
    text = {"type": "string"}
    output = template.body.output_format if isinstance(template.body, Atomic) else None
    shape = output.schema if template.returns is None and output is not None else template.returns
    return {
        "type": "object",
        "properties": {
            "content": text,
            "status": text,
            "criteria": text,
            "parsedContent": part_schema(shape),
            "notes": {"type": "object"},
        },
        "additionalProperties": False,
    }
