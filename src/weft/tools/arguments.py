"""Arguments as typed structs: one definition gives the JSON Schema that a model sees, and the reading."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from weft.evaluator.tools import ToolFailed

T = TypeVar("T")


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
    """The arguments as a struct; raises ToolFailed when they do not fit."""
    try:
        return msgspec.convert(arguments, kind)
    except msgspec.ValidationError as error:
        raise ToolFailed(f"wrong arguments: {error}") from None
