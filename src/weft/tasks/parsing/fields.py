"""Conversion of a decoded JSON object to a `Task`, or to a list of all problems of its fields."""

from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

import jsonschema_rs
import msgspec

from weft.ids import ANY_ID, TaskId, is_task_id
from weft.tasks.json_schema import task_schema
from weft.tasks.parsing.problems import Problem, is_json, joined, nearest, printable, shown
from weft.tasks.record import FIELD_NAMES, JSON_FIELDS, TIME_FIELDS, Dependency, JsonObject, Task, evolve

_TIME_NAMES = tuple(FIELD_NAMES[index] for index in TIME_FIELDS)
_JSON_NAMES = tuple(FIELD_NAMES[index] for index in JSON_FIELDS)
_TEXT_NAMES = ("user_id", "name", "error", "schedule_expression")
_ID_NAMES = ("id", "parent_id", "original_task_id", "task_tree_id")
_KNOWN_KEYS = {"": FIELD_NAMES, "dependencies": ("id", "name", "required")}
_SCHEMA_LEVELS = 4
"""Depth of the record's schema: task, `dependencies`, one dependency, its `id`."""


def read_task(raw: JsonObject, *, path: str = "") -> tuple[Task | None, list[Problem]]:
    """Return the task that a JSON object describes, or None and all problems of its fields."""
    try:
        task = msgspec.convert(raw, Task)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:  # UnicodeEncodeError: a lone surrogate
        problems = _field_problems(raw, path)
        wrong = {problem.field for problem in problems}
        problems += (problem for problem in _json_problems(raw.get, path) if problem.field not in wrong)
        return None, problems or [_unexplained(error, path)]
    problems = [
        *_schemas_problems(task, path),
        *_json_problems(lambda name: getattr(task, name), path),
        *_time_problems(task, path),
    ]
    return (None, problems) if problems else (_normalized(task), [])


def readable_part(raw: JsonObject, wrong: Collection[str]) -> Task | None:
    """Return the task without the `wrong` fields, to check rules between the others; None if impossible."""
    if "status" in wrong:
        return None
    # `params` may map inputs from the dependencies, which are unknown then.
    left_out = {*wrong, "params"} if "dependencies" in wrong else wrong
    part = {name: raw[name] for name in FIELD_NAMES if name in raw and name not in left_out}
    try:
        return msgspec.convert({"id": ANY_ID, "name": "?", **part}, Task)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def _normalized(task: Task) -> Task:
    """Return the task with lowercase ids and times in UTC, so that equal values compare equal."""
    changes: dict[str, Any] = {}
    for name in _TIME_NAMES:
        at: datetime | None = getattr(task, name)
        if at is not None and at.tzinfo is not UTC:
            changes[name] = at.astimezone(UTC)
    for name in _ID_NAMES:
        identifier = getattr(task, name)
        if identifier is not None and not identifier.islower():
            changes[name] = identifier.lower()
    if any(not dependency.id.islower() for dependency in task.dependencies):
        changes["dependencies"] = tuple(
            Dependency(TaskId(dependency.id.lower()), dependency.required) for dependency in task.dependencies
        )
    return evolve(task, **changes) if changes else task


@cache
def _validator() -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator(
        task_schema(), validate_formats=True, formats={"uuid": is_task_id}, offline=True
    )


@cache
def _schemas_validator() -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator(task_schema()["properties"]["schemas"], offline=True)


def _schemas_problems(task: Task, path: str) -> list[Problem]:
    """Return the problems inside `schemas`, which the record's type does not check."""
    if task.schemas is None:
        return []
    method = task.schemas.get("method")
    if len(task.schemas) == 1 and isinstance(method, str) and method:
        return []
    errors = _schemas_validator().iter_errors(_outline(task.schemas))
    return [
        _problem(error, joined(path, "schemas"), ("schemas", *error.instance_path))
        for error in errors
        if not _is_redundant(error)
    ]


def _field_problems(raw: JsonObject, path: str) -> list[Problem]:
    problems: list[Problem] = []
    for error in _validator().iter_errors(_outline(raw)):
        where = tuple(error.instance_path)
        match error.kind:
            case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=names):
                problems.extend(_unknown(name, where, path) for name in names)
            case _ if not _is_redundant(error):
                problems.append(_problem(error, path, where))
    return problems


def _outline(value: Any, levels: int = _SCHEMA_LEVELS) -> Any:
    """Return the value cut to the depth of the record's schema; the validator fails on deeper values."""
    match value:
        case dict():
            items = value.items() if levels else ()
            return {printable(str(key)): _outline(part, levels - 1) for key, part in items}
        case list() | tuple():
            return [_outline(part, levels - 1) for part in (value if levels else ())]
        case str():
            return printable(value)
        case None | bool() | int() | float():
            return value
        case datetime():
            return value.isoformat()
    return f"<{type(value).__name__}>"


def _json_problems(value_of: Callable[[str], Any], path: str) -> Iterator[Problem]:
    """Yield a problem for each value that JSON cannot represent; only Python callers can pass one."""
    for name in (*_JSON_NAMES, *_TEXT_NAMES):
        value = value_of(name)
        if not value or (isinstance(value, str) and value.isascii()) or is_json(value):
            continue
        reason = (
            "cannot be written as JSON: it has a lone surrogate, NaN, a huge number, deep nesting "
            "or a value that is not JSON"
        )
        yield Problem(name, reason, "a JSON value", shown(value), joined(path, name))


def _time_problems(task: Task, path: str) -> Iterator[Problem]:
    for name in _TIME_NAMES:
        at: datetime | None = getattr(task, name)
        if at is None or at.tzinfo is UTC:
            continue
        try:
            at.astimezone(UTC)
        except OverflowError:
            reason = f"{at.isoformat()} is outside the years 1 to 9999 in UTC"
            yield Problem(name, reason, "a time within the calendar", at.isoformat(), joined(path, name))


def _is_redundant(error: jsonschema_rs.ValidationError) -> bool:
    """Return whether another error about the value is clearer: that it is not a UUID, or of a wrong type."""
    match error.kind:
        case (
            jsonschema_rs.ValidationErrorKind.Pattern()
            | jsonschema_rs.ValidationErrorKind.MinLength()
            | jsonschema_rs.ValidationErrorKind.MaxLength()
        ):
            return bool(error.instance_path) and error.instance_path[-1] in _ID_NAMES
        case jsonschema_rs.ValidationErrorKind.Enum():
            return not isinstance(error.instance, str)
    return False


def _unknown(name: str, where: tuple[str | int, ...], path: str) -> Problem:
    known = _KNOWN_KEYS["dependencies" if where else ""]
    inside = _path(path, where)
    return Problem(
        field="dependencies" if where else shown(name),
        reason=f"unknown field '{shown(name)}'{nearest(name, known)}",
        expected="a field of the task record",
        actual=shown(name),
        path=joined(inside, shown(name)),
    )


def _problem(error: jsonschema_rs.ValidationError, path: str, where: tuple[str | int, ...]) -> Problem:
    kind = error.kind
    field = next((part for part in where if isinstance(part, str)), "")
    expected: Any = kind.value if hasattr(kind, "value") else kind.name
    reason = shown(error.message)
    actual = shown(error.instance)
    tail = tuple(error.instance_path)
    match kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            field = field or name
            tail = (*tail, name)
            reason, expected, actual = f"required field '{name}' is missing", "a value", None
        case jsonschema_rs.ValidationErrorKind.Type():
            types = " or ".join(map(str, expected if isinstance(expected, list) else [expected]))
            reason = f"must be {types}, not {_kind_of(error.instance)}"
        case jsonschema_rs.ValidationErrorKind.Format(format="uuid"):
            reason, expected = f"{actual!r} is not a UUID v4", "UUID v4"
        case jsonschema_rs.ValidationErrorKind.Format(format="date-time"):
            reason = (
                f"{actual!r} is not an ISO 8601 date and time with an offset (such as 2025-01-20T09:00:00Z)"
            )
            expected = "ISO 8601 date and time with an offset"
        case jsonschema_rs.ValidationErrorKind.Enum():
            allowed = [option for option in expected if option is not None]
            hint = nearest(actual, allowed) if isinstance(actual, str) else ""
            reason = f"{actual!r} is not one of {', '.join(map(str, allowed))}{hint}"
        case jsonschema_rs.ValidationErrorKind.Pattern():
            reason, expected = "must not contain a NUL character", "text without NUL"
        case jsonschema_rs.ValidationErrorKind.MaxLength(limit=limit):
            reason = f"must have at most {limit} characters, not {len(str(error.instance))}"
            expected = f"at most {limit} characters"
        case jsonschema_rs.ValidationErrorKind.MinLength():
            reason, expected = "must not be empty", "a non-empty string"
    return Problem(field=field, reason=reason, expected=expected, actual=actual, path=_path(path, tail))


def _path(path: str, parts: tuple[str | int, ...]) -> str:
    for part in parts:
        path = joined(path, part)
    return path


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return f"the number {shown(value)}"
        case str():
            return f"the string {shown(value)!r}"
        case list():
            return "an array"
    return "an object"


def _unexplained(error: Exception, path: str) -> Problem:
    """Return the problem that msgspec found and the schema did not (a leap second, 1.0 for an integer)."""
    reason, _, where = str(error).partition(" - at `$")
    inside = where.rstrip("`").lstrip(".")
    return Problem(
        field=inside.partition("[")[0],
        reason=reason,
        expected="a valid value",
        actual=None,
        path=_path(path, (inside,)),
    )
