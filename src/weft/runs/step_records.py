"""Conversion between steps and task records."""

from datetime import datetime
from typing import Any

import msgspec

from weft.evaluator.effects import Composite, ContextQuery, ModelCall, ScriptRun, Step, ToolCall
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.operators.task import TITLE_CHARACTERS
from weft.evaluator.results import TaskError, TaskFailure
from weft.limits import MAX_NAME_CHARACTERS, clean_text
from weft.secrets.registry import has_secrets, redact_json
from weft.tasks.record import JsonObject, Status, Task, evolve
from weft.tasks.states import error_text
from weft.tasks.steps import StoredFailure, with_step_fields

KINDS: dict[type[Any], str] = {
    ModelCall: "atomic",
    ScriptRun: "script",
    ToolCall: "tool",
    ContextQuery: "get_context",
}

_MODEL_CALL_FIELDS = ("prompt", "system", "model", "provider", "tools", "timeout_seconds", "output_schema")
_CONTEXT_QUERY_FIELDS = (
    *("query", "matching_strategy"),
    *("template_description", "template_type", "template_subtype"),
)


def kind_of(step: Step) -> str:
    request = step.request
    return request.kind if isinstance(request, Composite) else KINDS[type(request)]


def name_of(step: Step) -> str:
    """Return a short display name for the task tree."""
    request = step.request
    match request:
        case ModelCall():
            name = request.template or request.description or request.prompt
            name = f"{_short(name)} (second ask)" if request.repair is not None else _short(name)
        case ScriptRun():
            command = request.shell if request.shell is not None else " ".join(request.argv)
            name = _short(request.template or request.description or command)
        case ToolCall():
            name = request.tool
        case ContextQuery():
            name = _short(f"get_context {request.query or request.template_description or ''}")
        case _:
            name = request.name or request.kind
    return clean_text(name)[:MAX_NAME_CHARACTERS].strip() or kind_of(step)


def question_name(question: str) -> str:
    """Return the display name of a question in the task tree."""
    name = clean_text(_short(question))
    return name[:MAX_NAME_CHARACTERS].strip() or "question"


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= TITLE_CHARACTERS else f"{words[: TITLE_CHARACTERS - 3]}..."


def inputs_of(step: Step) -> JsonObject:
    """Return the inputs that the record of the step shows."""
    request = step.request
    match request:
        case ModelCall() | Composite() | ContextQuery():
            return request.inputs
        case ToolCall():
            return {
                **request.arguments,
                **({"arguments": list(request.positional)} if request.positional else {}),
            }
        case _:
            return {} if request.stdin is None else {"stdin": request.stdin}


def prompt_of(step: Step) -> JsonObject:
    """Return the request's fields to store for readers of the record, without its inputs."""
    request = step.request
    match request:
        case ModelCall():
            found = {name: getattr(request, name) for name in _MODEL_CALL_FIELDS}
        case ScriptRun():
            found = {"argv": request.argv, "shell": request.shell, "environment": request.environment}
        case ContextQuery():
            found = {name: getattr(request, name) for name in _CONTEXT_QUERY_FIELDS}
        case _:
            found = {}
    return {
        name: value if value.__class__ is str else msgspec.to_builtins(value)
        for name, value in found.items()
        if value
    }


FAILURE = "failure"
"""Key in a run's `params` of a failure that was not caused by a step."""


def stored_failure(error: TaskFailed) -> StoredFailure:
    """Return a failure in the form that `failure_of` reads back."""
    return StoredFailure(error.problem.code, msgspec.to_builtins(error.error))


def cancelled_step_failure(task: Task) -> TaskFailed:
    """Return the failure that a program gets for a step that somebody cancelled; replay gives the same."""
    return TaskFailed(TaskFailure("execution_halted", task.error or "the step was cancelled"))


def failure_of(stored: StoredFailure | None, text: str | None) -> TaskFailed:
    """Return the stored failure, or an `unexpected_error` with `text` if it cannot be read."""
    try:
        if stored is not None:
            error: TaskError = msgspec.convert(stored.error, TaskError)
            return TaskFailed(_with_output(error), code=str(stored.code))
    except msgspec.ValidationError:
        pass
    return TaskFailed(TaskFailure("unexpected_error", text or "the step failed"))


def _with_output(error: TaskError) -> TaskError:
    """Restore the content of a failed script from its details, where its output is stored once."""
    if not isinstance(error, TaskFailure) or error.content is not None:
        return error
    written = (error.details or {}).get("script_stdout")
    return error if written is None else msgspec.structs.replace(error, content=written)


CANCELLED_BY_PROGRAM = "cancelled: a time limit was reached, or another step failed"


def completed(task: Task, result: JsonObject, now: datetime) -> Task:
    """Return the completed record, with secrets redacted from the result."""
    return evolve(
        task,
        status=Status.COMPLETED,
        result=redact_json(result) if has_secrets() else result,
        progress=1.0,
        completed_at=now,
        updated_at=now,
        error=None,
    )


def failed(task: Task, error: TaskFailed, now: datetime) -> Task:
    """Return the failed record; a BudgetExceeded is not stored for replay, which counts budgets again."""
    facts = {} if isinstance(error, BudgetExceeded) else {"failure": stored_failure(error)}
    params = with_step_fields(task, **facts).params
    return evolve(
        task,
        status=Status.FAILED,
        error=error_text(error.error.message),
        params=redact_json(params) if has_secrets() else params,
        completed_at=now,
        updated_at=now,
    )


def cancelled_by_program(task: Task, now: datetime) -> Task:
    """Return the record of a step that the program itself has cancelled."""
    return evolve(
        with_step_fields(task, called_off=True),
        status=Status.CANCELLED,
        error=CANCELLED_BY_PROGRAM,
        completed_at=now,
        updated_at=now,
    )
