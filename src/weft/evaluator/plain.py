"""Values outside of a program: as text, as JSON, as the result of a task. Functions are refused."""

from typing import Any

import msgspec

from weft.evaluator.errors import ProgramError, program_error
from weft.evaluator.results import TaskResult
from weft.evaluator.values import SCALARS, check_finite, kind_of, plain, to_text
from weft.language.tree import Symbol

_MEASURED = frozenset({"model", "usage", "resourceUsage", "answered_at"})
"""Notes of a handler on how it went."""


def as_text(value: Any) -> str:
    """A value where text is wanted: a task result is its content, anything but a string its JSON text."""
    if not is_data(value):
        raise _no_data(value)
    return to_text(value)


def as_data(value: Any) -> Any:
    """A value as JSON for a request: of a task result what it says, not its notes, which may differ."""
    if value.__class__ in SCALARS:
        return value
    check_finite(value)
    return plain(value, _said)


def is_data(value: Any) -> bool:
    """Whether a value is JSON or a task result; what a list or dict holds is not looked at."""
    return value.__class__ in SCALARS or value.__class__ in (list, dict, TaskResult, Symbol)


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


def told_json(result: TaskResult) -> dict[str, Any]:
    """A result as JSON for a model: without what was measured on the way, which is another in every run."""
    notes = {name: note for name, note in result.notes.items() if name not in _MEASURED}
    return result_json(msgspec.structs.replace(result, notes=notes))


def _said(result: TaskResult) -> Any:
    return result.value


def _no_data(value: Any) -> ProgramError:
    return program_error("wrong-type", f"{kind_of(value)} is no value that can leave the program")
