"""Inputs as typed structs: one definition gives the JSON Schema and the reading."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from weft.executors.protocol import ExecutionFailed
from weft.tasks.json_schema import DRAFT_07
from weft.tasks.record import JsonObject

T = TypeVar("T", bound=Struct)


class Inputs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of what an executor takes: exactly these fields."""


def schema_of(kind: type[Inputs], **more: Any) -> JsonObject:
    """The draft-07 schema of inputs that are flat, with `more` rules between the fields."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/definitions/{name}")
    flat = definitions.pop(schema["$ref"].rpartition("/")[2])
    flat.pop("title", None)
    flat.pop("description", None)
    if definitions:
        raise TypeError(f"{kind.__name__} is not flat: {', '.join(definitions)}")
    return {"$schema": DRAFT_07, **flat, **more}


def read_inputs(kind: type[T], inputs: JsonObject) -> T:
    """The inputs as a struct; what does not fit fails the task for good, since no retry changes it."""
    try:
        return msgspec.convert(inputs, kind)
    except msgspec.ValidationError as error:
        raise ExecutionFailed(f"wrong inputs: {error}", is_permanent=True) from error
