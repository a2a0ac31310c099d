"""Arguments as people type them: text that becomes a value by the declared type of its parameter."""

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from weft.errors import RequestError
from weft.tasks.record import JsonObject

STRING = {"type": "string"}


class InvalidArgument(RequestError):
    """An argument on the command line cannot be read."""

    code = "invalid-argument"


class ArgumentText(str):
    """The text of `name=text`. Without a declared type it is JSON if it is JSON."""

    __slots__ = ()


class FileText(ArgumentText):
    """The text of the file of `name=@file`. Without a declared type it is a string."""

    __slots__ = ()


def typed_arguments(given: Mapping[str, Any], schema: Mapping[str, Any]) -> JsonObject:
    """Return arguments with texts converted by `schema`, a JSON Schema of an object with all parameters.

    A parameter that may be a string takes the text as it is. Text that has no value of the declared type
    stays text, so that the check of the arguments says what is wrong with it.
    """
    declared = schema.get("properties") or {}
    return {name: _typed(value, declared.get(name)) for name, value in given.items()}


def _typed(value: Any, declared: Any) -> Any:
    if not isinstance(value, ArgumentText):
        return value
    kinds = _kinds(declared)
    if "string" in kinds or (not kinds and isinstance(value, FileText)):
        return str(value)
    try:
        return parse_json(value)
    except (ValueError, RecursionError):
        return str(value)


def _kinds(schema: Any) -> set[str]:
    """Return the JSON types that a schema names, at its top; empty if it names none."""
    if not isinstance(schema, Mapping):
        return set()
    named = schema.get("type", [])
    kinds = {named} if isinstance(named, str) else set(named)
    for part in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        kinds |= _kinds(part)
    if not kinds and any(isinstance(choice, str) for choice in schema.get("enum", ())):
        kinds.add("string")
    return kinds


def parse_json(text: str) -> Any:
    """Return the value of a JSON text. Raise ValueError, also for NaN, or InvalidArgument for 1e999."""
    return json.loads(text, parse_constant=_reject_constant, parse_float=_finite)


def _finite(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        raise InvalidArgument(f"{digits} is too large for a number")
    return number


def _reject_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
