"""Converts values of a program to JSON and text, and Python values to values of a program."""

from math import isfinite
from operator import attrgetter
from typing import Any

import msgspec

from weft.evaluator.errors import TaskFailed, program_error
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import AssociativeMatchResult, TaskError, TaskFailure, TaskResult
from weft.evaluator.values import SCALARS, check_finite, kind_of, plain, to_text
from weft.language.ast import Symbol
from weft.language.library import TaskDefinition
from weft.limits import MAX_JSON_DEPTH, MAX_SHOWN_CHARACTERS, is_unicode
from weft.secrets.references import Secret
from weft.secrets.truncation import cut

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
"""Notes about how a response was produced. They are not sent to models or later steps: they are irrelevant to
the work and differ each time, which would change the digests of the following requests."""


def as_text(value: Any) -> str:
    """Return a value as text: a string as it is, a task result's content, else JSON. Raise ProgramError."""
    if not is_data(value):
        raise program_error("wrong-type", f"{kind_of(value)} cannot be converted to text or JSON")
    return to_text(value)


def to_request_json(value: Any) -> Any:
    """Return a value as JSON for a request; a task result becomes its value, without its notes."""
    if value.__class__ in SCALARS:
        return value
    check_finite(value)
    return plain(value, attrgetter("value"))


def is_data(value: Any) -> bool:
    """Return whether a value is JSON or a task result; items of lists and dicts are not checked."""
    return value.__class__ in SCALARS or value.__class__ in (list, dict, TaskResult, Symbol)


def as_result(value: Any) -> TaskResult:
    """Return a task result as it is; any other value becomes the content of a completed result."""
    if value.__class__ is TaskResult:
        return value
    if isinstance(value, str):
        return TaskResult(content=str(value), status="COMPLETE")
    check_finite(value)
    return TaskResult(
        content=as_text(value), status="COMPLETE", parsed_content=plain(value, _value_or_failure)
    )


def _value_or_failure(result: TaskResult) -> Any:
    """Return the value of a result inside a value; a failed one, which has none, as a whole."""
    return result_json(result) if result.status == "FAILED" else result.value


def result_json(result: TaskResult) -> dict[str, Any]:
    """Return a result as JSON, with the specification's names."""
    found: dict[str, Any] = msgspec.to_builtins(result)
    return found


def result_json_for_model(result: TaskResult) -> dict[str, Any]:
    """Return a result as JSON for a model, without the notes that differ in every run."""
    return result_json(msgspec.structs.replace(result, notes=strip_bookkeeping(result.notes)))


def error_json_for_model(error: TaskError) -> dict[str, Any]:
    """Return an error and its causes as JSON for a model, without bookkeeping notes and environments."""
    return _strip_nested(msgspec.to_builtins(error))


def strip_bookkeeping(notes: dict[str, Any]) -> dict[str, Any]:
    """Return the notes without those in BOOKKEEPING."""
    return {name: note for name, note in notes.items() if name not in BOOKKEEPING}


def _strip_nested(value: dict[str, Any]) -> dict[str, Any]:
    """Return an error or result, as JSON, without bookkeeping notes and environments on any level."""
    stripped = dict(value)
    if isinstance(notes := value.get("notes"), dict):
        stripped["notes"] = strip_bookkeeping(notes)
    if isinstance(details := value.get("details"), dict):
        stripped["details"] = details = {
            name: fact for name, fact in details.items() if name != "s_expression_environment"
        }
        if isinstance(inner := details.get("subtaskError"), dict):
            details["subtaskError"] = _strip_nested(inner)
        if isinstance(results := details.get("partialResults"), list):
            details["partialResults"] = [
                _strip_nested(one) if isinstance(one, dict) else one for one in results
            ]
    return stripped


_KEPT_TYPES = frozenset({type(None), bool, int, Symbol, TaskResult, Closure, BuiltIn, TaskDefinition})


def from_python(value: Any) -> Any:
    """Return a Python value as a value of the language, tuples as lists. Raise ValueError."""
    return _convert(value, MAX_JSON_DEPTH)


def require_json(what: str, value: Any) -> Any:
    """Return a tool's result as a value of the language. Raise TaskFailed about `what` if it is not JSON."""
    try:
        found = from_python(value)
        msgspec.json.encode(found)  # fails for numbers that cannot be stored
    except ValueError as error:
        raise TaskFailed(TaskFailure("tool_execution_error", f"the result of {what}: {error}")) from None
    return found


def check_context_result(value: Any) -> Any:
    """Return the result of memory. Raise TaskFailed if it is not an AssociativeMatchResult.

    Other implementations of memory may omit fields and add others.
    """
    try:
        found = from_python(value)
        text = msgspec.json.encode(found).decode()
    except ValueError as error:
        raise _context_failure(str(error), None) from None
    try:
        msgspec.convert(
            {"context_summary": "", **found} if isinstance(found, dict) else found, AssociativeMatchResult
        )
    except msgspec.ValidationError as error:
        raise _context_failure(str(error), cut(text, MAX_SHOWN_CHARACTERS)) from None
    return found


def _context_failure(why: str, text: str | None) -> TaskFailed:
    details: dict[str, Any] = {"violations": [why]}
    if text is not None:
        details["partial_context"] = text
    message = f"the result of memory is not an AssociativeMatchResult: {why}"
    return TaskFailed(TaskFailure("context_parsing_failure", message, details=details))


def check_tool_result(tool: str, value: Any) -> Any:
    """Return the result of a tool as a value of the language. Raise TaskFailed if it requests a subtask."""
    found = require_json(f"tool '{tool}'", value)
    status = found.status if isinstance(found, TaskResult) else None
    if isinstance(found, dict) and {"content", "notes"} & found.keys():  # a TaskResult in JSON form
        status = found.get("status")
    if status == "CONTINUATION":
        message = f"tool '{tool}' returned the status CONTINUATION; only a task can request a subtask"
        raise TaskFailed(TaskFailure("tool_execution_error", message))
    return found


def _convert(value: Any, levels: int) -> Any:
    if value.__class__ is str:
        return _unicode(value)
    if value.__class__ in _KEPT_TYPES:
        return value
    if levels == 0:
        raise ValueError(f"it is nested deeper than {MAX_JSON_DEPTH}")
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{value} is not a JSON number")
        return float(value)
    if isinstance(value, list | tuple):
        return [_convert(item, levels - 1) for item in value]
    if isinstance(value, dict):
        return {_key(key): _convert(item, levels - 1) for key, item in value.items()}
    if isinstance(value, str):  # an instance of a subclass
        return _unicode(str.__str__(value))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Secret):
        return value.reveal()
    raise ValueError(f"a Python {type(value).__name__} is not JSON")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise ValueError(f"keys must be strings; this is a Python {type(key).__name__}")
    return _unicode(str.__str__(key))


def _unicode(text: str) -> str:
    if not is_unicode(text):
        raise ValueError("it has a lone surrogate, which is not a valid character")
    return text
