"""The shapes of `schema`, `type` and `returns`: a name, a JSON Schema, or the path of a file with one."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec
from msgspec import Struct

from weft.errors import AuthorError
from weft.language.suggestions import nearest
from weft.secrets.cutting import cut

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
"""How many violations are told: a list of a million wrong items is not repeated."""

MAX_MESSAGE_CHARACTERS = 400
"""The validator repeats the value; a page of it helps nobody."""


class BadSchema(AuthorError):
    """A shape is neither a name, nor a JSON Schema, nor a file with one."""

    code = "bad-schema"


class Violation(Struct, frozen=True):
    """One way in which a value breaks a shape."""

    message: str
    location: str
    """A JSON Pointer; empty: the whole value."""

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


class Shape:
    """A JSON Schema that values are held to."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema
        self._validator = _validator(schema)

    def violations(self, value: Any) -> list[Violation]:
        """Every way, up to a bound, in which the value breaks the schema."""
        found: list[Violation] = []
        try:
            for error in self._validator.iter_errors(value):
                pointer = "".join(f"/{_escaped(part)}" for part in error.instance_path)
                found.append(Violation(_cut(error.message), pointer))
                if len(found) == MAX_VIOLATIONS:
                    break
        except ValueError as error:  # nested deeper than the validator goes, or no JSON
            found.append(Violation(f"cannot be checked: {_cut(str(error))}", ""))
        return found


def shape_of(text: str, read_file: Callable[[str], str] | None = None) -> Shape:
    """The shape that a text names; `read_file` gives the text of a schema file. Raises BadSchema."""
    name = text.strip()
    if name in NAMED_SCHEMAS or _is_inline(name):
        return _shape(name)
    if not is_path(name) or read_file is None:
        expected = "a JSON Schema, the path of a .json file, or one of " + " ".join(NAMED_SCHEMAS)
        raise BadSchema(f"'{_cut(name)}' is no shape; expected {expected}{nearest(name, NAMED_SCHEMAS)}")
    try:
        return _shape(read_file(name).strip())
    except (OSError, UnicodeDecodeError) as error:
        raise BadSchema(f"the schema file '{name}' cannot be read: {error}") from None


def part_schema(shape: str | None) -> Any:
    """The schema of a shape as part of another; anything goes where it refers to itself or cannot be read."""
    if shape is None or '"$' in shape:
        return {}
    try:
        return shape_of(shape).schema
    except BadSchema:
        return {}


def is_path(text: str) -> bool:
    """Whether a shape is the path of a file; an inline JSON Schema is not, whatever its texts contain."""
    name = text.strip()
    return not _is_inline(name) and (name.endswith(".json") or "/" in name or "\\" in name)


def _is_inline(name: str) -> bool:
    return name.startswith("{") or name in ("true", "false")


@lru_cache(maxsize=256)
def _shape(text: str) -> Shape:
    """The shape of a name or of the text of a JSON Schema; compiled once."""
    named = NAMED_SCHEMAS.get(text)
    if named is not None:
        return Shape(named)
    try:
        return Shape(msgspec.json.decode(text, type=dict[str, Any] | bool))
    except (ValueError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BadSchema(f"the schema is no usable JSON Schema: {_cut(reason)}") from None


def _validator(schema: JsonSchema) -> Any:
    """The validator of the draft that `$schema` names, else of the newest.

    `offline=True` because the library otherwise fetches remote and `file:` references; the backtracking limit
    bounds patterns.
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
