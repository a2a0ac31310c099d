"""`inputs` against `schemas.input_schema`: JSON Schema draft-07, with its formats checked."""

import uuid
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from weft.secrets.cutting import cut
from weft.secrets.references import masked
from weft.tasks.problems import Problem, joined, shown
from weft.tasks.record import JsonObject, Task


def input_problems(task: Task, *, path: str = "", is_stored: bool = False) -> list[Problem]:
    """Every way in which the task's inputs break its input schema, or why that schema is none.

    Stored inputs may refer to secrets: what these are is known when the task runs, and is checked then.
    """
    schema = (task.schemas or {}).get("input_schema")
    if schema is None:
        return []
    try:
        validator = validator_for(msgspec.json.encode(schema))
    except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
        return [_bad_schema(schema, error, path)]
    try:
        inputs, unknown = masked(task.inputs) if is_stored else (task.inputs, frozenset())
        return list(problems_of(validator, inputs, joined(path, "inputs"), unknown))
    except ValueError as error:  # nested deeper than the validator goes
        reason = f"cannot be checked against input_schema: {error}"
        return [
            Problem("inputs", reason, "inputs of usual depth", shown(task.inputs), joined(path, "inputs"))
        ]


@lru_cache(maxsize=256)
def validator_for(schema: bytes) -> jsonschema_rs.Draft7Validator:
    """The validator of a JSON text that is a draft-07 schema; raises ValueError when it is none.

    `offline=True` because the library otherwise fetches remote and `file:` references. The linear-time
    regular expressions are not used: draft-07 patterns may look ahead; the backtracking limit bounds them.
    """
    return jsonschema_rs.Draft7Validator(
        msgspec.json.decode(schema),
        validate_formats=True,
        formats={"uuid": _is_uuid},
        offline=True,
        pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
    )


def _is_uuid(text: str) -> bool:
    try:
        return len(text) == 36 and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def problems_of(
    validator: jsonschema_rs.Draft7Validator,
    inputs: JsonObject,
    path: str,
    unknown: Collection[tuple[str | int, ...]] = (),
) -> Iterator[Problem]:
    """Every way in which the inputs, but for those at `unknown` places, break the schema of the validator."""
    for error in validator.iter_errors(inputs):
        if tuple(error.instance_path) in unknown:
            continue
        where = path
        for part in error.instance_path:
            where = joined(where, part)
        kind = error.kind
        yield Problem(
            field="inputs",
            reason=_reason(error.message),
            expected={kind.name: shown(_plain(getattr(kind, "value", None)))},
            actual=shown(error.instance),
            path=where,
        )


def _reason(message: str) -> str:
    return cut(message, 400)


def _plain(value: Any) -> Any:
    """The value with the errors of alternatives (anyOf, oneOf, propertyNames) as their messages."""
    if isinstance(value, jsonschema_rs.ValidationError):
        return value.message
    return [_plain(part) for part in value] if isinstance(value, list) else value


def _bad_schema(schema: JsonObject, error: Exception, path: str) -> Problem:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return Problem(
        field="schemas",
        reason=f"input_schema is not a usable JSON Schema: {reason}",
        expected="JSON Schema draft-07 without remote references",
        actual=shown(schema),
        path=joined(joined(path, "schemas"), "input_schema"),
    )
