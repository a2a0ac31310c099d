"""Arguments of tools as typed structs, which give both the JSON Schema for models and the validation."""

import contextlib
import math
from typing import Any, TypeVar

import msgspec

from weft.evaluator.tools import ToolFailed

T = TypeVar("T")

MAX_EXACT = 2**53
"""Up to this value every integer is exactly representable as a float."""


def schema_of(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a struct; structs inside it are under `$defs`."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    name = schema["$ref"].rpartition("/")[2]
    flat = {key: value for key, value in definitions[name].items() if key not in ("title", "description")}
    inner = {key: value for key, value in definitions.items() if key != name}
    return {**flat, "$defs": inner} if inner else flat


def read_arguments(kind: type[T], arguments: dict[str, Any]) -> T:
    """Convert the arguments to a struct. Raise ToolFailed if they do not match.

    1.0 is accepted as an integer: JSON does not distinguish it from 1, and models write both.
    """
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        with contextlib.suppress(msgspec.ValidationError):
            return msgspec.convert(_with_whole_numbers(arguments), kind)
        raise ToolFailed(f"wrong arguments: {error}") from None


def is_finite(value: Any) -> bool:
    """Return True unless a number in a value of lists and dicts is infinite or NaN."""
    match value:
        case float():
            return math.isfinite(value)
        case dict():
            return all(map(is_finite, value.values()))
        case list() | tuple() | set() | frozenset():
            return all(map(is_finite, value))
    return True


def _with_whole_numbers(value: Any) -> Any:
    """Replace whole floats by integers, as far as floats are exact."""
    match value:
        case float() if value.is_integer() and abs(value) <= MAX_EXACT:
            return int(value)
        case dict():
            return {key: _with_whole_numbers(one) for key, one in value.items()}
        case list():
            return [_with_whole_numbers(one) for one in value]
    return value
