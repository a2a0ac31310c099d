"""How task operators perform steps and report failures."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from weft.evaluator.branches import current_branch
from weft.evaluator.compiler import Compiler
from weft.evaluator.effects import Composite, Step
from weft.evaluator.errors import BudgetExceeded, ProgramError, TaskFailed, program_error
from weft.evaluator.machine import Machine
from weft.evaluator.operators.context import (
    TaskContext,
    current_context,
    restore_recorded_turns,
    use_context,
    with_recorded_turns,
)
from weft.evaluator.results import (
    ResourceExhaustion,
    TaskError,
    TaskFailure,
    TaskResult,
    ValidationFailure,
    error_of,
)
from weft.language.source import NOWHERE, Span
from weft.language.traversal import SPAWN_TOOL

T = TypeVar("T")

COMPOSITE_OPERATIONS = 10
"""Operations that a composite counts as: its branch and coroutines take the time of at least 10 calls."""


def perform(
    compiler: Compiler, request: Any, span: Span, effect: Callable[[Step, Any], Awaitable[Any]]
) -> Any:
    """Perform a request as the next step and return its result; failures get the location of the task."""
    machine = compiler.machine
    step = Step(machine.next_key(), request, span, called_at=current_context().called_at)
    with error_location(span, step.key):
        composite = step.key if isinstance(request, Composite) else None
        return machine.wait(effect(step, request), composite=composite)


def run_composite(
    compiler: Compiler,
    request: Composite,
    span: Span,
    body: Callable[[], TaskResult],
    *,
    context: TaskContext,
    timeout_seconds: float | None = None,
) -> TaskResult:
    """Run a task made of other tasks and return its result; the keys of its steps are below its own."""
    machine = compiler.machine
    machine.meter.count(COMPOSITE_OPERATIONS)

    before = current_branch().conversation

    def code() -> TaskResult:
        current_branch().conversation = before
        with use_context(context):
            return with_recorded_turns(body(), before)

    async def run_body(step: Step, _: Composite) -> TaskResult:
        async def run() -> TaskResult:
            return await machine.run(code, prefix=f"{step.key}/")

        return await machine.effects.around(step, run)

    def act() -> TaskResult:
        return restore_recorded_turns(completed(perform(compiler, request, span, run_body), span))

    return act() if timeout_seconds is None else run_with_timeout(machine, timeout_seconds, span, act)


def run_with_timeout(
    machine: Machine, seconds: float, span: Span, act: Callable[[], T], *, is_enforced_elsewhere: bool = False
) -> T:
    """Run a task with a time limit, which includes the time of pure code, and return its result.

    With `is_enforced_elsewhere`, the effect enforces the limit until the task has waited for a person.
    """
    with error_location(span):
        scope = machine.timed_scope(seconds, is_enforced_elsewhere=is_enforced_elsewhere)
    try:
        return machine.within_limits(scope, act)
    except BudgetExceeded as error:
        if error.scope is not scope:
            raise
        message = f"the task took longer than {seconds:g} seconds"
        raise failed(TaskFailure("execution_timeout", message), span).caused_by(error) from None


def completed(result: TaskResult, span: Span) -> TaskResult:
    """Return a completed result. Raise TaskFailed if it failed or requests a subtask."""
    if result.status == "COMPLETE":
        return result
    if result.status == "FAILED":
        raise failed(error_of(result), span)
    request = result.notes.get("subtask_request")
    details = {"subtaskRequest": request} if request is not None else None
    message = f"the task requests a subtask, but does not list the tool {SPAWN_TOOL}"
    raise failed(TaskFailure("subtask_failure", message, content=result.content, details=details), span)


def reject_output(machine: Machine, failure: TaskFailed, *keys: str) -> TaskFailed:
    """Mark the last step of the running branch, and the steps `keys`, as rejected; return the failure."""
    branch = current_branch()
    failure.step_key = branch.key_of(branch.steps)
    for key in (*keys, failure.step_key):
        machine.history.reject(key)
    return failure


def failed(error: TaskError, span: Span) -> TaskFailed:
    """Return the failure of the task at that location."""
    return TaskFailed(error).at(span)


def program_error_at(code: str, message: str, span: Span, *, path: str | None = None) -> ProgramError:
    """Return an error of the program at that location; `path` names the invalid argument, if there is one."""
    error = program_error(code, message)
    if path is not None:
        error = ProgramError(ValidationFailure(message, path=path), code=code)
    return error.at(span)


class error_location:  # noqa: N801  used as `with error_location(span)`
    """Adds the location and the step to errors that have none.

    A class, because a context manager from a generator takes three times as long.
    """

    __slots__ = ("_key", "_span")

    def __init__(self, span: Span, key: str | None = None) -> None:
        self._span = span
        self._key = key

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, TaskFailed):
            return
        if error.step_key is None:
            error.step_key = self._key
        if error.span is NOWHERE:
            raise error.at(self._span) from None


def part_failed(cause: TaskFailed, message: str, span: Span, details: dict[str, Any]) -> TaskFailed:
    """Return the failure of a composite that is caused by the failure of a part.

    An exceeded budget or other limit is returned unchanged: a budget must keep its type and scope, so that no
    `try` inside the scope catches it.
    """
    if isinstance(cause, BudgetExceeded) or isinstance(cause.error, ResourceExhaustion):
        return cause
    error: dict[str, Any] = msgspec.to_builtins(cause.error)
    facts = {**details, "subtaskError": error, "nestingDepth": current_context().depth}
    expression = (error.get("details") or {}).get("failing_expression")
    if expression is not None:
        facts["failing_expression"] = expression
    text = f"{message}: {cause.error.message}"
    failure = TaskFailure("subtask_failure", text, content=cause.error.content, details=facts)
    return TaskFailed(failure, span=span if cause.span is NOWHERE else cause.span).caused_by(cause)
