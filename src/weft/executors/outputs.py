"""What an executor gives, as a JSON Schema: so that who maps inputs from it is told what it never has."""

from typing import Any

from weft.executors.protocol import Executor
from weft.tasks.record import JsonObject


def result_schema(**fields: str | JsonObject) -> JsonObject:
    """The schema of a result that has no other fields than these, each a type's name or a schema."""
    properties = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in fields.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def output_schema_of(executor: Executor) -> JsonObject | None:
    """What an executor's attribute `output_schema` says of its results; None: they may be anything."""
    found: Any = getattr(executor, "output_schema", None)
    return found if isinstance(found, dict) else None
