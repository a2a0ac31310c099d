"""How a run ended, from what is stored of it."""

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.ids import TaskId
from weft.runs.errors import NoRun, differs
from weft.runs.records import failure_of
from weft.store.protocol import TaskStore
from weft.tasks.record import Origin, Status, Task
from weft.tasks.steps import mark_of


class Spent(Struct, frozen=True):
    """What the models of a run took."""

    calls: int = 0
    """Answers that were asked for, not those that another run had."""
    reused: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class RunOutcome(Struct, frozen=True):
    """A run that is over, or rests: the id of its task, and its result if there is one."""

    root_id: TaskId
    status: Status
    result: TaskResult | None
    """Of a failed run the failed result; None while it is not over."""


async def outcome_of(store: TaskStore, task: Task) -> RunOutcome:
    """How the run of a task stands; raises NoRun when its result is not that of a program."""
    if task.status is Status.COMPLETED:
        return RunOutcome(task.id, task.status, _result_of(task))
    if task.status is Status.FAILED:
        return RunOutcome(task.id, task.status, (await _failure(store, task)).result())
    if task.status is Status.CANCELLED:
        failure = TaskFailure("execution_halted", task.error or "cancelled")
        return RunOutcome(task.id, task.status, TaskFailed(failure).result())
    return RunOutcome(task.id, task.status, None)


def _result_of(task: Task) -> TaskResult:
    try:
        return msgspec.convert(task.result, TaskResult)
    except msgspec.ValidationError:
        raise NoRun(root_id=task.id, name=task.name) from None


async def _failure(store: TaskStore, task: Task) -> TaskFailed:
    """What the step said whose failure ended the run, in the words of the run."""
    if differs(task.error):  # an earlier evaluation may have left a step that ended the run then
        return TaskFailed(TaskFailure("unexpected_error", task.error or ""))
    last = {step.key: mark_of(step.task) for step in await store.steps_of(task.id)}
    for mark in reversed(last.values()):
        if mark.get("ended_run"):
            return failure_of(mark["ended_run"], task.error)
    return TaskFailed(TaskFailure("unexpected_error", task.error or "the run failed"))


def spent_by(tasks: Iterable[Task]) -> Spent:
    """What the tasks say they took."""
    total = Spent()
    for task in tasks:
        usage = ((task.result or {}).get("notes") or {}).get("usage")
        if not isinstance(usage, dict) or mark_of(task).get("kind") != "atomic":
            continue
        if task.origin_type is Origin.LINK:
            total = msgspec.structs.replace(total, reused=total.reused + 1)
            continue
        cost = usage.get("cost")
        total = Spent(
            calls=total.calls + int(usage.get("turns", 1)),
            reused=total.reused,
            input_tokens=total.input_tokens + int(usage.get("input_tokens", 0)),
            output_tokens=total.output_tokens + int(usage.get("output_tokens", 0)),
            cost=total.cost + (cost or 0.0),
            unpriced=total.unpriced + (cost is None),
        )
    return total
