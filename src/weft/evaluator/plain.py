"""Values outside of a program: as text, as JSON, as the result of a task."""

import json
from typing import Any

import msgspec

from weft.evaluator.results import TaskResult

SCALARS = (type(None), bool, int, float, str)


def as_text(value: Any) -> str:
    """A value where text is wanted: a task result is its content, anything but a string its JSON text.

    Raises TypeError for what is no JSON: functions.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, TaskResult):
        return value.content
    return json.dumps(value, ensure_ascii=False, default=_builtin)


def as_data(value: Any) -> Any:
    """A value as JSON for a request: a task result inside is its value. Raises TypeError for functions."""
    if isinstance(value, TaskResult):
        return value.value
    if isinstance(value, SCALARS):
        return value
    if isinstance(value, list | tuple):
        return [as_data(part) for part in value]
    if isinstance(value, dict):
        return {key: as_data(part) for key, part in value.items()}
    raise TypeError(f"a {type(value).__name__} is no JSON")


def is_data(value: Any) -> bool:
    """Whether a value is JSON or a task result; what a list or dict holds is not looked at."""
    return isinstance(value, (*SCALARS, list, tuple, dict, TaskResult))


def as_result(value: Any) -> TaskResult:
    """A value as a task's result: itself, or a completed one that says it. Raises TypeError for functions."""
    if isinstance(value, TaskResult):
        return value
    if isinstance(value, str):
        return TaskResult(content=str(value), status="COMPLETE")
    return TaskResult(content=as_text(value), status="COMPLETE", parsed_content=as_data(value))


def result_json(result: TaskResult) -> dict[str, Any]:
    """A result as JSON, under the specification's names."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    return found


def _builtin(value: Any) -> Any:
    if isinstance(value, TaskResult):
        return result_json(value)
    raise TypeError(f"a {type(value).__name__} is no JSON")
