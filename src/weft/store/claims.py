"""Claims: which worker performs which attempt, and which flows are run; for the engine and its scheduler."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from weft.errors import InternalError, WeftError
from weft.ids import TaskId
from weft.store.columns import json_text, json_value
from weft.store.errors import StoreError
from weft.store.models import AttemptResult, Claim, ClaimRequest, ClaimResult, DueSchedule, Owner, Suspension
from weft.store.unit_of_work import Row, StorePart, Unit, Work, Write, write
from weft.tasks.events import EventType
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import Dependency, JsonObject, Task
from weft.tasks.states import Completed, Outcome, Started, error_text, fraction, require_object, transition
from weft.tasks.steps import ENDED_WITH_RUN


class Claims(StorePart):
    """Starts and ends attempts; marks flows to be run."""

    @write(of_task=True)
    def start(self, unit: Unit, task_id: TaskId, *, worker: str, now: datetime, owner: Owner) -> Work[Claim]:
        """Start the next attempt of one pending task. Raise if its state forbids it."""
        require_worker_name(worker)
        if now.utcoffset() is None:
            raise StoreError(f"the time {now.isoformat()} has no UTC offset")
        rows = yield "start_task", (task_id, worker, now, owner.is_everyone, owner.user_id)
        if not rows:
            found = yield "get_tasks", ([task_id], owner.is_everyone, owner.user_id)
            raise _refusal(task_id, unit.dialect.task_of(found[0]) if found else None, now)
        _, attempt, tree, user_id = rows[0]
        claim = Claim(task_id, attempt, worker, TaskId(str(tree)), user_id)
        unit.add_event(claim, EventType.TASK_STARTED, now, claim_facts(claim))
        return claim

    async def advance(
        self, endings: Sequence[AttemptResult | Suspension], wanted: ClaimRequest
    ) -> tuple[Sequence[bool | WeftError], ClaimResult | WeftError]:
        """End attempts and claim ready tasks in one transaction.

        For each of `endings`, return whether its claim was still held (otherwise nothing was written
        for it), or the error why its outcome cannot be stored. Then return the claimed tasks, or the
        error why none could be claimed; the endings are stored even then. Raise if nothing was
        written. An unknown worker, or one with an expired lease, claims nothing.
        """
        *held, claimed = await self._group.write_together([*map(_ending, endings), wanted])
        return held, claimed

    @write(of_task=True)
    def report(self, unit: Unit, claim: Claim, *, progress: float, now: datetime) -> Work[bool]:
        """Store the progress of an attempt. Return False if the claim is no longer held."""
        progress = fraction(progress)
        if not (yield "report_progress", (*_fence(claim), now, progress)):
            return False
        unit.add_event(claim, EventType.TASK_PROGRESSED, now, {"progress": progress})
        return True

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        """End the attempt. Return False, with nothing written, if the claim is no longer held."""
        return bool(await self._group.write(_ending(AttemptResult(claim, outcome))))

    @write(of_task=True)
    def release(self, unit: Unit, claim: Claim, *, now: datetime) -> Work[bool]:
        """Release the task, and do not count the attempt as lost. Return False if the claim is not held."""
        if not (yield "release_task", (*_fence(claim), now)):
            return False
        unit.add_event(claim, EventType.TASK_RELEASED, now, claim_facts(claim))
        return True

    @write()
    def run_flow(self, _unit: Unit, root_id: TaskId, *, owner: Owner) -> Work[None]:
        """Mark a flow to be run by this process or any other. Raise TaskNotFound if it does not exist."""
        if not (yield "run_flow", (root_id, owner.is_everyone, owner.user_id)):
            raise TaskNotFound(task_id=root_id)

    @write()
    def stop_flow(self, _unit: Unit, root_id: TaskId, *, owner: Owner) -> Work[None]:
        """Undo `run_flow`: no more tasks of the flow are started."""
        if not (yield "stop_flow", (root_id, owner.is_everyone, owner.user_id)):
            raise TaskNotFound(task_id=root_id)

    @write()
    def end_flow(self, _unit: Unit, root_id: TaskId) -> Work[bool]:
        """Mark a flow as over if no task is ready, delayed or in progress. Return whether it is over."""
        yield "end_flow", (root_id,)
        rows = yield "is_running", (root_id,)
        return not (rows and rows[0][0])

    async def running_flows(self, *, owner: Owner) -> Sequence[TaskId]:
        """Return the roots of the flows that are marked to be run, oldest first."""
        return await self._read(_ids, ("running_flows", (owner.is_everyone, owner.user_id)))

    async def due_schedules(
        self, *, now: datetime, limit: int, after: DueSchedule | None = None
    ) -> Sequence[DueSchedule]:
        """Return enabled schedules that are due, the longest overdue first, starting after `after`."""

        def due(row: Row) -> DueSchedule:
            task_id, due_at, params, has_unfinished_run = row
            found = None if params is None else json_value(params)
            return DueSchedule(
                TaskId(str(task_id)), self.dialect.time_of(due_at), found, bool(has_unfinished_run)
            )

        last = (None, None) if after is None else (after.next_run_at, after.task_id)
        return await self._read(
            lambda rows: [due(row) for row in rows], ("due_schedules", (now, limit, *last))
        )

    async def overdue_suspensions(self, *, now: datetime, limit: int) -> Sequence[TaskId]:
        """Return suspended tasks that are past their `wake_at`, the longest overdue first."""
        return await self._read(_ids, ("overdue_suspensions", (now, limit)))


def require_worker_name(worker: str) -> None:
    """Raise StoreError if the worker's name has characters that some store rejects."""
    if not worker.isprintable():
        raise StoreError(f"the worker name {worker!r} has characters that are not printable")


def claim_facts(claim: Claim) -> JsonObject:
    """Return the facts of an event about a claim: the attempt and its worker."""
    return {"attempt": claim.attempt, "worker": claim.worker}


def _ids(rows: Sequence[Row]) -> list[TaskId]:
    return [TaskId(str(row[0])) for row in rows]


def _fence(claim: Claim) -> tuple[Any, ...]:
    """Return the parameters by which a statement writes only while the claim is held."""
    return claim.task_id, claim.attempt, claim.worker, claim.user_id


def _ending(ending: AttemptResult | Suspension) -> Write:
    if isinstance(ending, AttemptResult):
        return Write(partial(_end_attempt, request=ending), ending.claim.task_id)
    return Write(partial(_suspend, request=ending))  # it reads what its task waits for


def _end_attempt(unit: Unit, request: AttemptResult) -> Work[bool]:
    """End an attempt, either finally or until its retry. Return whether the claim was held."""
    claim, at = request.claim, request.outcome.at
    if request.retry_after is not None:
        return (yield from _end_until_retry(unit, request, unit.now + request.retry_after))
    columns, facts = _outcome_columns(request)
    rows = yield "finish_task", (*_fence(claim), at, *columns)
    if not rows:
        return False
    _, seq, has_children = rows[0]
    ended = unit.completed if columns[0] == "completed" else unit.unsuccessful
    ended.append((claim.task_id, seq))
    if has_children:
        steps = yield "end_open_steps", (claim.task_id, at, ENDED_WITH_RUN)
        unit.add_ended_steps(steps, ENDED_WITH_RUN, at)
    unit.add_event(claim, request.outcome.event_type, at, facts)
    return True


def _end_until_retry(unit: Unit, request: AttemptResult, retry_at: datetime) -> Work[bool]:
    claim, at = request.claim, request.outcome.at
    columns, facts = _outcome_columns(request)
    if not (yield "retry_task", (*_fence(claim), unit.now, retry_at, columns[2])):
        return False
    unit.add_event(claim, request.outcome.event_type, at, facts)
    unit.add_event(claim, EventType.TASK_RETRIED, at, {"at": retry_at.isoformat()})
    return True


def _outcome_columns(request: AttemptResult) -> tuple[tuple[Any, ...], JsonObject]:
    """Return status, result, error and progress after an attempt, and the facts of its event.

    A progress of None leaves the column unchanged.
    """
    outcome = request.outcome
    facts: JsonObject = {"attempt": request.claim.attempt}
    if isinstance(outcome, Completed):
        require_object(outcome.result)
        return ("completed", json_text(outcome.result), None, 1.0), facts
    facts["error"] = error_text(outcome.error)
    return (outcome.verb, None, facts["error"], None), facts


def _suspend(unit: Unit, request: Suspension) -> Work[bool]:
    """Suspend a task until one of `request.until` ends. Return whether the claim was held."""
    claim, at, task_id = request.claim, request.at, request.claim.task_id
    if not (yield "suspend_task", (*_fence(claim), at, request.wake_at)):
        return False
    ((has_ended,),) = yield "has_ended", (list(request.until),)
    until = () if has_ended else (Dependency(needed, required=False) for needed in request.until)
    yield "delete_dependents_of", (task_id,)
    yield "set_dependencies", (task_id, json_text((*request.dependencies, *until)))
    yield "insert_dependents_of", (task_id,)
    yield "recount_waiting", (task_id,)
    unit.add_event(claim, EventType.TASK_SUSPENDED, at, {**claim_facts(claim), "until": request.until})
    return True


def _refusal(task_id: TaskId, task: Task | None, now: datetime) -> WeftError:
    """Return the error that says why the task could not be started; None as `task`: it does not exist."""
    if task is None:
        return TaskNotFound(task_id=task_id)
    try:
        transition(task, Started(now))
    except WeftError as error:
        return error
    return InternalError(f"task {task.id} could be started, but was not")
