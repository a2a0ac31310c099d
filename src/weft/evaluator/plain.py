"""Values outside of a program: as text, as JSON, as the result of a task. Functions are refused."""

from typing import Any

import msgspec

from weft.evaluator.errors import ProgramError, program_error
from weft.evaluator.results import TaskResult
from weft.evaluator.values import check_finite, kind_of, to_text
from weft.language.tree import Symbol

_SCALARS = frozenset({type(None), bool, int, float, str})


def as_text(value: Any) -> str:
    """A value where text is wanted: a task result is its content, anything but a string its JSON text."""
    if not is_data(value):
        raise _no_data(value)
    return to_text(value)


def as_data(value: Any) -> Any:
    """A value as JSON for a request: of a task result what it says, not its notes, which may differ."""
    if value.__class__ in _SCALARS:
        return value
    check_finite(value)
    return _data(value)


def is_data(value: Any) -> bool:
    """Whether a value is JSON or a task result; what a list or dict holds is not looked at."""
    return value.__class__ in _SCALARS or value.__class__ in (list, dict, TaskResult, Symbol)


def as_result(value: Any) -> TaskResult:
    """A value as the result of a task: itself, or a completed one that says it."""
    if value.__class__ is TaskResult:
        return value
    if isinstance(value, str):
        return TaskResult(content=str(value), status="COMPLETE")
    return TaskResult(content=as_text(value), status="COMPLETE", parsed_content=as_data(value))


def result_json(result: TaskResult) -> dict[str, Any]:
    """A result as JSON, under the specification's names."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    return found


def _data(value: Any) -> Any:
    if value.__class__ in _SCALARS:
        return value
    if value.__class__ is list:
        return [_data(part) for part in value]
    if value.__class__ is dict:
        return {key: _data(part) for key, part in value.items()}
    if value.__class__ is TaskResult:
        return _data(value.value)
    if value.__class__ is Symbol:
        return str(value)
    raise _no_data(value)


def _no_data(value: Any) -> ProgramError:
    return program_error("wrong-type", f"{kind_of(value)} is no value that can leave the program")
