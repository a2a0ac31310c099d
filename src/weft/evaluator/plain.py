"""Values outside of a program: as text, as JSON, as the result of a task. Functions are refused."""

from typing import Any

import msgspec

from weft.evaluator.errors import ProgramError, program_error
from weft.evaluator.results import TaskError, TaskResult
from weft.evaluator.values import SCALARS, check_finite, kind_of, plain, to_text
from weft.language.tree import Symbol

BOOKKEEPING = frozenset(
    {
        "model",
        "usage",
        "resourceUsage",
        "answered_at",
        "context",
        "dataUsage",
        "history_turns_left_out",
        "reused",
    }
)
"""Notes on how an answer came about. Models and later steps are not told of them: they say nothing about the
work, and differ each time, so that what comes after one that was asked again would be another request."""


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
    """A result as JSON for a model: without notes on how it came about, which are others in every run."""
    return result_json(msgspec.structs.replace(result, notes=told_notes(result.notes)))


def told_error(error: TaskError) -> dict[str, Any]:
    """The same of an error, and of those that it comes from."""
    return _told(msgspec.to_builtins(error))


def told_notes(notes: dict[str, Any]) -> dict[str, Any]:
    """Notes without those on how it went."""
    return {name: note for name, note in notes.items() if name not in BOOKKEEPING}


def _told(said: dict[str, Any]) -> dict[str, Any]:
    """An error or a result, as JSON."""
    told = dict(said)
    if isinstance(notes := said.get("notes"), dict):
        told["notes"] = told_notes(notes)
    if isinstance(details := said.get("details"), dict):
        told["details"] = details = {
            name: fact for name, fact in details.items() if name != "s_expression_environment"
        }
        if isinstance(inner := details.get("subtaskError"), dict):
            details["subtaskError"] = _told(inner)
        if isinstance(results := details.get("partialResults"), list):
            details["partialResults"] = [_told(one) if isinstance(one, dict) else one for one in results]
    return told


def _said(result: TaskResult) -> Any:
    return result.value


def _no_data(value: Any) -> ProgramError:
    return program_error("wrong-type", f"{kind_of(value)} is no value that can leave the program")
