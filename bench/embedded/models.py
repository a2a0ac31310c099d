"""The models that benchmarks ask: embedded ones that are here, or one that only tries the benchmark."""

from typing import Any

from weft.llm.local.catalogue import find_entry, how_to_get, is_present
from weft.llm.local.models import EmbeddedModels
from weft.llm.payload import HandlerPayload
from weft.llm.protocol import Models, StaticModels
from weft.testing.scripted_model import ScriptedModel

SCRIPTED = "scripted"
"""Answers at once with the least that fits the schema: to run a benchmark without a real model."""


def missing_model(name: str) -> str | None:
    """Return how to get an embedded model that is not here; None when it is. Nothing is fetched."""
    if name == SCRIPTED:
        return None
    entry = find_entry(name)
    return None if is_present(entry) else f"{entry.name} is not here; {how_to_get(entry)}"


def open_models(name: str) -> Models:
    """Return what finds the model `local:NAME`."""
    return StaticModels(ScriptedModel(_answer)) if name == SCRIPTED else EmbeddedModels()


def _answer(payload: HandlerPayload) -> Any:
    return "none" if payload.output_schema is None else _least(payload.output_schema)


def _least(schema: Any) -> Any:
    """Return a value that fits a schema of the shipped templates."""
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: _least(properties[name]) for name in schema.get("required", properties)}
        case "array":
            return [_least(schema["items"])] * schema.get("minItems", 0)
        case "boolean":
            return True
        case "integer" | "number":
            return schema.get("minimum", 0)
    return ""
