"""How a run ended, from its stored records."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from weft.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNAVAILABLE, EXIT_WAITING
from weft.evaluator.errors import TaskFailed, program_failure
from weft.evaluator.results import TaskFailure, TaskResult, is_unavailable
from weft.ids import TaskId
from weft.language.diagnostics import InvalidProgram
from weft.runs.errors import REPLAY_CODES, NoRun
from weft.runs.program import LoadedProgram, NoProgram, program_of
from weft.runs.replay import is_step_cancelled
from weft.runs.step_records import FAILURE, cancelled_step_failure, failure_of
from weft.store.protocol import TaskStore
from weft.tasks.record import JsonObject, Origin, Status, Task
from weft.tasks.steps import (
    StoredFailure,
    Usage,
    has_own_usage,
    is_model_step,
    is_step,
    step_fields,
    usage_of,
)


class Spent(Struct, frozen=True):
    """Model usage of a run, and the number of its reused results."""

    usage: Usage = Usage()
    """Usage of all requests made, including failed ones; reused results count nothing."""
    reused: int = 0


class RunOutcome(Struct, frozen=True):
    """The status of a run and, once it has ended, its result."""

    root_id: TaskId
    status: Status
    result: TaskResult | None
    """For a failed run, the failed result; None while the run has not ended."""
    code: str = ""
    """The code of the failure."""
    is_step_cancelled: bool = False
    """Whether a step that somebody cancelled ended the run."""
    questions: tuple[Task, ...] = ()
    """Open questions of a run that has not ended."""

    @property
    def error(self) -> JsonObject:
        """Return the TaskError of a failed run; empty for other runs."""
        return {} if self.result is None else self.result.notes.get("error") or {}

    @property
    def exit_code(self) -> int:
        """Return the exit code of a command that has run it."""
        if self.result is None:
            is_waiting = bool(self.questions) and self.status is Status.PENDING
            return EXIT_WAITING if is_waiting else EXIT_INTERRUPTED
        if self.status is Status.COMPLETED:
            return 0
        return EXIT_UNAVAILABLE if is_unavailable(self.error) else EXIT_FAILED


async def outcome_of(store: TaskStore, task: Task) -> RunOutcome:
    """Return the outcome of a task's run; raise NoRun if its result is not that of a program."""
    if task.status is Status.COMPLETED:
        try:
            return RunOutcome(task.id, task.status, msgspec.convert(task.result, TaskResult))
        except msgspec.ValidationError:
            raise NoRun(root_id=task.id, name=task.name) from None
    if task.status is Status.FAILED:
        failed, has_cancelled_step = await _failure(store, task)
        return RunOutcome(task.id, task.status, failed.result(), failed.problem.code, has_cancelled_step)
    if task.status is Status.CANCELLED:
        failure = TaskFailure("execution_halted", task.error or "cancelled")
        return RunOutcome(task.id, task.status, TaskFailed(failure).result())
    return RunOutcome(task.id, task.status, None)


async def _failure(store: TaskStore, task: Task) -> tuple[TaskFailed, bool]:
    """Return the failure that ended the run, and whether somebody caused it by cancelling a step."""
    own = _own_failure(task)
    if own is not None and own.problem.code in REPLAY_CODES:
        return own, False  # the mark of a step would be from an earlier attempt
    last = {step.key: step.task for step in await store.steps_of(task.id)}
    for step in reversed(last.values()):
        ended_run = step_fields(step).ended_run
        if ended_run:
            return failure_of(ended_run, task.error), is_step_cancelled(step)
    for step in filter(is_step_cancelled, reversed(last.values())):  # cancelled steps are not marked
        if (step.error or "") in (task.error or ""):
            return cancelled_step_failure(step), True
    own = own or _invalid_program_failure(task)
    return own or TaskFailed(TaskFailure("unexpected_error", task.error or "the run failed")), False


def _own_failure(task: Task) -> TaskFailed | None:
    """Return the failure stored with a run that no step ended; None for that of an earlier attempt."""
    text, stored = task.error or "", (task.params or {}).get(FAILURE)
    if isinstance(stored, dict):
        kept = failure_of(msgspec.convert(stored, StoredFailure), text)
        if kept.error.message in text:
            return kept
    # Older records have the code of a replay mismatch only in their text.
    code = next((code for code in REPLAY_CODES if text.startswith(f"{code}: ")), None)
    return None if code is None else TaskFailed(TaskFailure("unexpected_error", text), code=code)


def _invalid_program_failure(task: Task) -> TaskFailed | None:
    """Return the failure of a run with an invalid program; None if it is valid, or there is no program."""
    try:
        LoadedProgram(program_of(task))
    except InvalidProgram as error:
        return TaskFailed(program_failure(error), span=error.found[0].span, code=error.found[0].code)
    except NoProgram:
        return None
    return None


def spent_by(tasks: Iterable[Task]) -> Spent:
    """Return the total usage of the tasks."""
    tasks = list(tasks)
    children: dict[TaskId | None, list[Task]] = {}
    for task in tasks:
        children.setdefault(task.parent_id, []).append(task)
    by_id = {task.id: task for task in tasks}
    counted = {_step_id(task, by_id) for task in tasks if has_own_usage(task)}
    total, reused = Usage(), 0
    for task in filter(is_model_step, tasks):
        reused += task.origin_type is Origin.LINK
        # The result of a session that was restarted in a new record also counts the turns of the first.
        turns = () if _step_id(task, by_id) in counted else children.get(task.id, ())
        total += usage_of(task, turns) or Usage()
    return Spent(total, reused)


def _step_id(task: Task, by_id: Mapping[TaskId, Task]) -> tuple[TaskId, str]:
    """Return the id of the run that contains the step, and the step key."""
    key = step_fields(task).key
    while is_step(task) and task.parent_id is not None and task.parent_id in by_id:
        task = by_id[task.parent_id]
    return task.id, key
