"""Values that come from outside: JSON, or a value that a program gave before."""

from math import isfinite
from typing import Any

import msgspec

from weft.evaluator.data_context import AssociativeMatchResult
from weft.evaluator.errors import TaskFailed
from weft.evaluator.functions import BuiltIn, Closure
from weft.evaluator.results import TaskFailure, TaskResult
from weft.language.library import TaskDefinition
from weft.language.tree import Symbol
from weft.limits import MAX_JSON_DEPTH, MAX_SHOWN_CHARACTERS
from weft.secrets.cutting import cut
from weft.secrets.marked import Secret

_AS_THEY_ARE = frozenset({type(None), bool, int, str, Symbol, TaskResult, Closure, BuiltIn, TaskDefinition})


def taken_in(value: Any) -> Any:
    """The value as the language has it, tuples as lists; raises ValueError, which says what is wrong."""
    return _taken_in(value, MAX_JSON_DEPTH)


def json_answer(what: str, value: Any) -> Any:
    """Return the answer of a tool as the language has it; raises TaskFailed where it is no JSON."""
    try:
        found = taken_in(value)
        msgspec.json.encode(found)  # half a character (a lone surrogate) is none that can be stored
    except ValueError as error:
        raise TaskFailed(TaskFailure("tool_execution_error", f"the answer of {what}: {error}")) from None
    return found


def context_answer(value: Any) -> Any:
    """Return the answer of memory; raises TaskFailed where it is no AssociativeMatchResult.

    Memory of somebody else's making may leave fields out and add others.
    """
    try:
        found = taken_in(value)
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
    found = json_answer(f"tool '{tool}'", value)
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
