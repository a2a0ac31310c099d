"""Steps: how task operators ask for effects, and what they make of failures."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from weft.evaluator.branches import current_branch
from weft.evaluator.budget import Scope, SuspendAwareDeadline
from weft.evaluator.compiler import Compiler
from weft.evaluator.effects import Composite, Step
from weft.evaluator.errors import BudgetExceeded, ProgramError, TaskFailed, program_error
from weft.evaluator.machine import Machine
from weft.evaluator.operators.context import Surroundings, inside, surroundings, take_recorded, with_recorded
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

COMPOSITE_STEPS = 10
"""What a composite task counts: a branch and its coroutines take the time of so many calls, at least."""


def ask(compiler: Compiler, request: Any, span: Span, effect: Callable[[Step, Any], Awaitable[Any]]) -> Any:
    """What the effects answer to a request; a failure that names no place gets the one of the task."""
    machine = compiler.machine
    step = Step(machine.next_key(), request, span, called_at=surroundings().called_at)
    with at(span, step.key):
        composite = step.key if isinstance(request, Composite) else None
        return machine.wait(effect(step, request), composite=composite)


def run_composite(
    compiler: Compiler,
    request: Composite,
    span: Span,
    body: Callable[[], TaskResult],
    *,
    around: Surroundings,
    timeout_seconds: float | None = None,
) -> TaskResult:
    """The result of a task made of others; its steps have keys below its own."""
    machine = compiler.machine
    machine.meter.count(COMPOSITE_STEPS)

    before = current_branch().conversation

    def code() -> TaskResult:
        current_branch().conversation = before
        with inside(around):
            return with_recorded(body(), before)

    async def perform(step: Step, _: Composite) -> TaskResult:
        async def run() -> TaskResult:
            return await machine.run(code, prefix=f"{step.key}/")

        return await machine.effects.around(step, run)

    def act() -> TaskResult:
        return take_recorded(completed(ask(compiler, request, span, perform), span))

    return act() if timeout_seconds is None else in_time(machine, timeout_seconds, span, act)


def in_time(
    machine: Machine,
    seconds: float,
    span: Span,
    act: Callable[[], T],
    *,
    is_bound_elsewhere: bool = False,
) -> T:
    """The result of a task that may take so long; the time of pure code counts too."""
    with at(span):
        now = machine.now()
        waits = SuspendAwareDeadline(now + seconds, is_bound_elsewhere=is_bound_elsewhere)
        scope = Scope({}, current_branch().scope, seconds=seconds, now=now, waits=waits)
    try:
        return machine.bounded(scope, act)
    except BudgetExceeded as error:
        if error.scope is not scope:
            raise
        message = f"the task took longer than {seconds:g} seconds"
        raise failed(TaskFailure("execution_timeout", message), span).caused_by(error) from None


def completed(result: TaskResult, span: Span) -> TaskResult:
    """The result, if it is one; raises TaskFailed when it failed or asks for a subtask."""
    if result.status == "COMPLETE":
        return result
    if result.status == "FAILED":
        raise failed(error_of(result), span)
    request = result.notes.get("subtask_request")
    details = {"subtaskRequest": request} if request is not None else None
    message = f"the task asks for a subtask, and does not list the tool {SPAWN_TOOL}"
    raise failed(TaskFailure("subtask_failure", message, content=result.content, details=details), span)


def unfit(machine: Machine, failure: TaskFailed, *keys: str) -> TaskFailed:
    """The failure by an answer that will not do: the last one of the running branch, and others before it."""
    branch = current_branch()
    failure.step_key = branch.key_of(branch.steps)
    for key in (*keys, failure.step_key):
        machine.history.reject(key)
    return failure


def failed(error: TaskError, span: Span) -> TaskFailed:
    """The failure of the task at that place, to be raised."""
    return TaskFailed(error).at(span)


def mistake(code: str, message: str, span: Span, *, path: str | None = None) -> ProgramError:
    """A mistake of the program at that place, to be raised; with a path it is one of an argument."""
    error = program_error(code, message)
    if path is not None:
        error = ProgramError(ValidationFailure(message, path=path), code=code)
    return error.at(span)


class at:  # noqa: N801  reads as a word: `with at(span)`
    """Places errors that do not say where they happened, or in which step.

    A class: a generator costs thrice as much.
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
    """The failure of a composite by the failure of a part.

    A budget that is used up stays what it is: whoever set it must see it, and nobody inside may catch it.
    """
    if isinstance(cause, BudgetExceeded) or isinstance(cause.error, ResourceExhaustion):
        return cause
    error: dict[str, Any] = msgspec.to_builtins(cause.error)
    facts = {**details, "subtaskError": error, "nestingDepth": surroundings().depth}
    expression = (error.get("details") or {}).get("failing_expression")
    if expression is not None:
        facts["failing_expression"] = expression
    text = f"{message}: {cause.error.message}"
    failure = TaskFailure("subtask_failure", text, content=cause.error.content, details=facts)
    return TaskFailed(failure, span=span if cause.span is NOWHERE else cause.span).caused_by(cause)
