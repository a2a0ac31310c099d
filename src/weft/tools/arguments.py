"""Arguments as typed structs: one definition gives the JSON Schema that a model sees, and the reading."""

import contextlib
import math
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from weft.evaluator.tools import ToolFailed

T = TypeVar("T")

MAX_EXACT = 2**53
"""Up to here every integer is a float."""


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what a tool takes: exactly these fields."""


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """The JSON Schema of a struct, an object; structs inside it are under `$defs`."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = schema["$ref"].rpartition("/")[2]
    flat = {key: value for key, value in definitions[name].items() if key not in ("title", "description")}
    inner = {key: value for key, value in definitions.items() if key != name}
    return {**flat, "$defs": inner} if inner else flat


def read_arguments(kind: type[T], arguments: dict[str, Any]) -> T:
    """The arguments as a struct; raises ToolFailed when they do not fit.

    For JSON 1.0 is a whole number as 1 is, and models write both.
    """
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(_with_whole_numbers(arguments), kind)
        raise ToolFailed(f"wrong arguments: {error}") from None


def is_finite(value: Any) -> bool:
    """Whether no number in a value of lists and dicts is infinite or NaN."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(is_finite, value.values()))
        case list() | tuple() | set() | frozenset():
            return all(map(is_finite, value))
    return True


def _with_whole_numbers(value: Any) -> Any:
    """The value with integers for floats that are whole, as far as floats are exact."""
    match value:
        case float() if value.is_integer() and abs(value) <= MAX_EXACT:
            return int(value)
        case dict():
            return {key: _with_whole_numbers(one) for key, one in value.items()}
        case list():
            return [_with_whole_numbers(one) for one in value]
    return value
