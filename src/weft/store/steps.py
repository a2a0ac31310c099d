"""Steps of runs: written only while the attempt at the run's task is held, and read for replay and reuse."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from weft.ids import TaskId
from weft.store.columns import json_text
from weft.store.models import Run, StepChange, StoredStep
from weft.store.unit_of_work import Many, Row, StorePart, Unit, Work, WriteSteps, write
from weft.tasks.events import EventType, NewEvent
from weft.tasks.record import FIELD_NAMES, JsonObject, Status, Task, method_of
from weft.tasks.steps import ENDED_WITH_STEP, Digests

_UPDATED_FIELDS = tuple(
    FIELD_NAMES.index(name)
    for name in (
        "status", "result", "error", "progress", "params", "started_at", "completed_at", "updated_at",
        "origin_type", "original_task_id",
    )
)  # fmt: skip

_PARAMS_FIELD = FIELD_NAMES.index("params")
_TASK_COLUMNS = len(FIELD_NAMES)


class Steps(StorePart):
    """Keeps the steps of runs."""

    async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId] | None:
        """Store steps of a run, all in one transaction.

        Return the steps that were not written because they had ended meanwhile: somebody cancelled
        them. Return None, with nothing written, if the attempt at the run's task is no longer held.
        """
        refused: frozenset[TaskId] | None = await self._group.write(WriteSteps(run, tuple(changes)))
        return refused

    @write()
    def update_params(self, _unit: Unit, run: Run, params: JsonObject, *, now: datetime) -> Work[bool]:
        """Update the params of a running program task. Return False if the attempt is no longer held."""
        return bool((yield "update_params", (run.task_id, run.attempt, json_text(params), now)))

    async def steps_of(self, task_id: TaskId) -> Sequence[StoredStep]:
        """Return the steps that all attempts at a task recorded, in the order in which they were stored."""

        def step(row: Row) -> StoredStep:
            task = self.dialect.task_of(row[:_TASK_COLUMNS])
            return StoredStep(task, row[_TASK_COLUMNS], row[_TASK_COLUMNS + 1])

        return await self._read(lambda rows: [step(row) for row in rows], ("steps_of", (task_id,)))

    async def digests_of(self, root_id: TaskId) -> Mapping[TaskId, Digests]:
        """Return the digests of the steps of all runs in a flow."""
        return await self._read(
            lambda rows: {TaskId(str(row[0])): Digests(row[1], row[2]) for row in rows},
            ("digests_of_flow", (root_id,)),
        )

    async def reusable_steps(
        self, reuse_hash: str, *, user_id: str | None, besides: TaskId
    ) -> Sequence[TaskId]:
        """Return the completed steps of the same owner with this `reuse_hash`, not of the flow `besides`.

        Steps of the latest flow come first; within a flow they are in the order of their requests.
        """
        return await self._read(
            lambda rows: [TaskId(str(row[0])) for row in rows],
            ("reusable_steps", (reuse_hash, user_id, besides)),
            is_short=True,
        )

    async def find_step(self, task_id: TaskId) -> Task | None:
        """Return the record of a step of any owner, or None if it was deleted."""
        return await self._read(
            lambda rows: self.dialect.task_of(rows[0]) if rows else None,
            ("find_step", (task_id,)),
            is_short=True,
        )


def write_steps(unit: Unit, requests: Sequence[WriteSteps]) -> Work[list[frozenset[TaskId] | None]]:
    """Write steps of one run. Return for each request the steps that had already ended.

    The outcomes are None, with nothing written, if the attempt at the run's task is no longer held.
    """
    run = requests[0].run
    # All records are encoded before the first is written: if one cannot be encoded, nothing may be written.
    rows = [[unit.dialect.task_row(change.task) for change in request.changes] for request in requests]
    if not (yield "holds_run", (run.task_id, run.attempt)):
        return [None] * len(requests)
    changes = [change for request in requests for change in request.changes]
    if new := [(change, row) for change, row in zip(changes, chain(*rows), strict=True) if change.is_new]:
        yield Many("insert_task", [_new_row(run, change, row) for change, row in new])
    if parents := [change.task.parent_id for change, _ in new if change.is_first_child]:
        yield "mark_parents", (parents,)
    outcomes: list[frozenset[TaskId] | None] = []
    sources: list[TaskId] = []
    for request, own_rows in zip(requests, rows, strict=True):
        refused = []
        for change, row in zip(request.changes, own_rows, strict=True):
            if change.is_new or (yield from _update(unit, run, change, row)):
                unit.add_events(_events(change))
                sources += filter(None, [change.task.original_task_id])
            else:
                refused.append(change.task.id)
        outcomes.append(frozenset(refused))
    if sources:
        yield "mark_reused", (sources,)
    return outcomes


def _new_row(run: Run, change: StepChange, row: list[Any]) -> list[Any]:
    step = (run.task_id, change.key, change.input_hash, change.reuse_hash)
    return [*row, method_of(change.task), 0, *step]


def _update(unit: Unit, run: Run, change: StepChange, row: list[Any]) -> Work[bool]:
    """Write the new state of a stored step. Return False if somebody has cancelled it."""
    task = change.task
    if change.is_params_only:
        yield "mark_step", (task.id, run.task_id, row[_PARAMS_FIELD])
        return True
    values = (*(row[index] for index in _UPDATED_FIELDS), change.input_hash, change.reuse_hash)
    rows = yield "update_step", (task.id, run.task_id, *values, change.is_outcome_used)
    if not rows:
        return False
    if task.status is not Status.IN_PROGRESS:
        ended = unit.completed if task.status is Status.COMPLETED else unit.unsuccessful
        ended.append((task.id, rows[0][0]))
        if change.has_steps and task.completed_at is not None:
            below = yield "end_steps_below", (run.task_id, change.key, task.completed_at, ENDED_WITH_STEP)
            unit.add_ended_steps(below, ENDED_WITH_STEP, task.completed_at)
    return True


_END_EVENTS = {
    Status.COMPLETED: EventType.TASK_COMPLETED,
    Status.FAILED: EventType.TASK_FAILED,
    Status.CANCELLED: EventType.TASK_CANCELLED,
}


def _events(change: StepChange) -> Iterator[NewEvent]:
    """Yield the events of a step: its start, once per attempt at the run, and its end."""
    if change.is_params_only:
        return
    task = change.task
    tree, began, ended = task.task_tree_id or task.id, task.started_at, task.completed_at
    if began is not None and not change.is_continued:
        yield NewEvent(EventType.TASK_STARTED, task.id, tree, task.user_id, began, {"step": change.key})
    kind = _END_EVENTS.get(task.status)
    if kind is not None and ended is not None:
        facts: JsonObject = {} if task.error is None else {"error": task.error}
        if task.original_task_id is not None:
            facts["reused"] = task.original_task_id
        yield NewEvent(kind, task.id, tree, task.user_id, ended, facts)
