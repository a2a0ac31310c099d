"""Convert values of a program to JSON and text, and values from outside to a program's."""

from math import isfinite
from typing import Any

import msgspec

from weft.evaluator.errors import ProgramError, TaskFailed, program_error
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import AssociativeMatchResult, TaskError, TaskFailure, TaskResult
from weft.evaluator.values import SCALARS, check_finite, kind_of, plain, to_text
from weft.language.ast import Symbol
from weft.language.library import TaskDefinition
from weft.limits import MAX_JSON_DEPTH, MAX_SHOWN_CHARACTERS
from weft.secrets.truncation import cut
from weft.secrets.value import Secret

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


def result_json_for_model(result: TaskResult) -> dict[str, Any]:
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


_AS_THEY_ARE = frozenset({type(None), bool, int, str, Symbol, TaskResult, Closure, BuiltIn, TaskDefinition})


def from_python(value: Any) -> Any:
    """The value as the language has it, tuples as lists; raises ValueError, which says what is wrong."""
    return _taken_in(value, MAX_JSON_DEPTH)


def require_json(what: str, value: Any) -> Any:
    """Return the answer of a tool as the language has it; raises TaskFailed where it is no JSON."""
    try:
        found = from_python(value)
        msgspec.json.encode(found)  # half a character (a lone surrogate) is none that can be stored
    except ValueError as error:
        raise TaskFailed(TaskFailure("tool_execution_error", f"the answer of {what}: {error}")) from None
    return found


def context_answer(value: Any) -> Any:
    """Return the answer of memory; raises TaskFailed where it is no AssociativeMatchResult.

    Memory of somebody else's making may leave fields out and add others.
    """
    try:
        found = from_python(value)
        text = msgspec.json.encode(found).decode()
    except ValueError as error:
        raise _not_parsed(str(error), None) from None
    try:
        msgspec.convert(
            {"context_summary": "", **found} if isinstance(found, dict) else found, AssociativeMatchResult
        )
    except msgspec.ValidationError as error:
        raise _not_parsed(str(error), cut(text, MAX_SHOWN_CHARACTERS)) from None
    return found


def _not_parsed(why: str, answer: str | None) -> TaskFailed:
    details: dict[str, Any] = {"violations": [why]}
    if answer is not None:
        details["partial_context"] = answer
    message = f"the answer of memory is no AssociativeMatchResult: {why}"
    return TaskFailed(TaskFailure("context_parsing_failure", message, details=details))


def tool_answer(tool: str, value: Any) -> Any:
    """Return the answer of a tool as the language has it; raises TaskFailed where it asks for a subtask."""
    found = require_json(f"tool '{tool}'", value)
    status = found.status if isinstance(found, TaskResult) else _status_of(found)
    if status == "CONTINUATION":
        message = f"tool '{tool}' answered with status CONTINUATION; only a task can ask for a subtask"
        raise TaskFailed(TaskFailure("tool_execution_error", message))
    return found


def _status_of(answer: Any) -> Any:
    """Return the status of a TaskResult that is written as JSON; None: it is no such result."""
    return answer.get("status") if isinstance(answer, dict) and {"content", "notes"} & answer.keys() else None


def _taken_in(value: Any, levels: int) -> Any:
    if value.__class__ in _AS_THEY_ARE:
        return value
    if levels == 0:
        raise ValueError(f"it is nested deeper than {MAX_JSON_DEPTH}")
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, list | tuple):
        return [_taken_in(item, levels - 1) for item in value]
    if isinstance(value, dict):
        return {_key(key): _taken_in(item, levels - 1) for key, item in value.items()}
    if isinstance(value, str):  # of a class of its own
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Secret):
        return value.reveal()
    raise ValueError(f"a Python {type(value).__name__} is no JSON")


def _finite(value: float) -> float:
    if not isfinite(value):
        raise ValueError(f"{value} is no number of JSON")
    return float(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(f"a key is a string; this is a Python {type(key).__name__}")
    return str.__str__(key)
