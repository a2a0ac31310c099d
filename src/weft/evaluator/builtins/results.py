"""Built-ins for task results, errors and log messages."""

from typing import Any

import msgspec
from msgspec import UNSET

from weft.evaluator.builtins.table import built_in, wrong_type
from weft.evaluator.compiler import Compiler
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskError, TaskFailure, TaskResult
from weft.evaluator.values import to_json, to_text


def _require_result(name: str, value: Any) -> TaskResult:
    if not isinstance(value, TaskResult):
        raise wrong_type(name, "a task result", value, 0)
    return value


@built_in("content", "(content r)")
def content(value: Any) -> str:
    """Return the text of a task result."""
    return _require_result("content", value).content


@built_in("status", "(status r)")
def status(value: Any) -> str:
    """Return COMPLETE, CONTINUATION or FAILED."""
    return _require_result("status", value).status


@built_in("parsed", "(parsed r)")
def parsed(value: Any) -> Any:
    """Return the parsed content of a task result, or nil."""
    found = _require_result("parsed", value).parsed_content
    return None if found is UNSET else found


@built_in("notes", "(notes r)")
def notes(value: Any) -> dict[str, Any]:
    """Return the notes of a task result, a dict."""
    return _require_result("notes", value).notes


@built_in("failed?", "(failed? x)")
def failed(value: Any) -> bool:
    """Return whether x is a failed task result."""
    return isinstance(value, TaskResult) and value.status == "FAILED"


@built_in("log-message", "(log-message x ...)", needs_compiler=True)
def log_message(compiler: Compiler, *values: Any) -> None:
    """Log the values as text, separated by spaces; return nil."""
    compiler.machine.effects.log(" ".join(map(to_text, values)))


@built_in("error", "(error message details)")
def error(message: Any, details: Any = None) -> Any:
    """Fail; `catch` finds both in the notes."""
    notes = None if details is None else {"details": to_json(details)}
    raise TaskFailed(
        TaskFailure(reason="execution_halted", message=to_text(message), notes=notes), code="raised"
    )


@built_in("raise", "(raise x)")
def raise_again(value: Any) -> Any:
    """Fail with a failed task result, or with x as the message."""
    if isinstance(value, TaskResult) and value.status == "FAILED":
        raise TaskFailed(_error_of(value), code="raised")
    return error(value)


def _error_of(result: TaskResult) -> TaskError:
    try:
        return msgspec.convert(result.notes.get("error"), TaskError)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        return TaskFailure(reason="subtask_failure", message=result.content, content=result.content)


@built_in("identity", "(identity x)")
def identity(value: Any) -> Any:
    """Return x."""
    return value
