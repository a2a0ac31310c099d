"""Append-only journal of one attempt of a program run."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile
from typing import Any, Self

from msgspec import Struct, structs

from weft.clock import Clock
from weft.evaluator.effects import Composite, Step
from weft.evaluator.errors import TaskFailed
from weft.ids import NewTaskId, TaskId
from weft.runs.replay import RecordedSteps, has_outcome, resumable
from weft.runs.step_records import (
    cancelled_by_program,
    cancelled_step_failure,
    completed,
    failed,
    inputs_of,
    kind_of,
    name_of,
    prompt_of,
    stored_failure,
)
from weft.runs.step_writer import StepWriter
from weft.secrets.registry import has_secrets, redact_json
from weft.store.models import Run, StepChange, StoredStep
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Dependency, JsonObject, Origin, Status, Task, evolve, first_source
from weft.tasks.states import error_text
from weft.tasks.steps import PROMPT, STEP, restarted_step, with_step_fields


class OpenStep(Struct, eq=False):
    """A step that has started and not ended."""

    key: str
    input_hash: str
    task: Task
    parent: "OpenStep | None"
    is_stored: bool = False
    """Whether the store has its record."""
    is_shown: bool = False
    """Whether this attempt has written the record."""
    is_composite: bool = False

    def ancestors(self) -> "Iterator[OpenStep]":
        """Yield the enclosing open steps, innermost first."""
        ancestor = self.parent
        while ancestor is not None:
            yield ancestor
            ancestor = ancestor.parent


SHOWN_SECONDS = 0.05
"""A step that takes longer is stored as in progress, so that observers of the run see it."""


class Journal:
    """Append-only journal of one attempt of a program run."""

    def __init__(
        self,
        store: TaskStore,
        task: Task,
        attempt: int,
        steps: Sequence[StoredStep],
        *,
        writer: StepWriter,
        clock: Clock,
        new_id: NewTaskId,
    ) -> None:
        self.past = RecordedSteps(steps)
        self._store = store
        self._task = task
        self._clock = clock
        self._new_id = new_id
        self.attempt = attempt
        self.run = run_of(task, attempt)
        self.writer = writer
        self._evaluation = asyncio.current_task()
        self._open: dict[str, OpenStep] = {}
        self._unshown: dict[str, OpenStep] = {}
        """Open steps that this attempt has not written yet; parents come before their children."""
        self._ended: dict[str, OpenStep] = {}
        """Steps that have ended, but not in the store yet."""
        self._rejected: set[str] = set()
        """Keys of steps with results that other runs must not reuse."""
        self._with_children: set[str | None] = self.past.parents
        self._ids = {step.key: step.task.id for step in steps}
        """Record ids by step key; children find their parent here."""
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._is_suspending = False
        self.on_change: Callable[[], None] | None = None
        """Called when a step starts or ends."""

    @classmethod
    async def open(
        cls,
        store: TaskStore,
        task: Task,
        attempt: int,
        *,
        clock: Clock,
        new_id: NewTaskId,
        before: StepWriter | None = None,
    ) -> Self:
        """Return the journal of a new attempt, with the steps that earlier attempts recorded.

        `before` is the writer of an earlier attempt in this process. The new attempt stores the changes that
        `before` could not write: a response that came while the store was unavailable is not paid for again.
        """
        writer = StepWriter(store, run_of(task, attempt))
        unwritten = () if before is None else await before.drain()
        steps = await store.steps_of(task.id)
        missing = missing_changes(unwritten, steps, task.id)
        if missing:
            await writer.write(missing)
            steps = await store.steps_of(task.id)
        return cls(store, task, attempt, steps, writer=writer, clock=clock, new_id=new_id)

    def now(self) -> datetime:
        return self._clock.now()

    def begin(self, step: Step, input_hash: str, before: Task | None = None) -> OpenStep:
        """Open a step; `before` is its existing record if that can be resumed."""
        task = before or self._new_record(
            step.key, name_of(step), inputs_of(step), kind_of(step), prompt_of(step)
        )
        opened = self._opened(step.key, input_hash, task, before)
        opened.is_composite = isinstance(step.request, Composite)
        return opened

    def begin_part(
        self,
        key: str,
        input_hash: str,
        name: str,
        kind: str,
        *,
        inputs: JsonObject | None = None,
        facts: JsonObject | None = None,
        before: Task | None = None,
    ) -> OpenStep:
        """Open a part of a step that has its own record: a turn, a tool call or a question."""
        task = before or self._new_record(key, name, inputs or {}, kind, {}, facts)
        return self._opened(key, input_hash, task, before)

    async def show(self) -> None:
        """Store all open steps now, and wait for writes that are in progress."""
        await self._flush()
        await self.writer.settle()

    def open_steps(self) -> Collection[OpenStep]:
        """Return the steps that have started and not ended."""
        return self._open.values()

    def suspend(self) -> tuple[Dependency, ...]:
        """Suspend the run: a cancellation from now on leaves open steps open.

        Return the task's own dependencies, without those on its steps.
        """
        self._is_suspending = True
        steps = frozenset(self._ids.values())
        return tuple(one for one in self._task.dependencies if one.id not in steps)

    async def complete(
        self,
        opened: OpenStep,
        result: JsonObject,
        *,
        reuse_hash: str | None = None,
        source: Task | None = None,
        is_last: bool = False,
    ) -> JsonObject:
        """Store the result of a step, and return it as stored, with secrets redacted.

        `source` is the step of another run that the result is reused from. `is_last` says that the effect
        does nothing afterwards: a cancellation during the write comes too late, and the stored result counts.
        """
        task = completed(opened.task, result, self._clock.now())
        if source is not None:
            task = evolve(task, origin_type=Origin.LINK, original_task_id=first_source(source))
        await self._end(opened, task, reuse_hash, is_last=is_last)
        return task.result or {}

    def complete_soon(self, opened: OpenStep, result: JsonObject) -> None:
        """Store the result of a composite together with the next write; replay does not give it."""
        opened.task = completed(opened.task, result, self._clock.now())
        self._end_soon(opened)

    async def answer(self, opened: OpenStep, result: JsonObject) -> bool:
        """Store the answer to a question; return False if it was already answered or cancelled."""
        return await self._write_end(opened, completed(opened.task, result, self._clock.now()))

    def ended_elsewhere(self, opened: OpenStep) -> None:
        """Close a question that another process has already stored as ended."""
        self.halt(opened)
        self._notify()

    async def fail(self, opened: OpenStep, error: TaskFailed) -> None:
        """Store a failure. Replay raises it again, except an exceeded budget, which replay checks again."""
        await self._end(opened, failed(opened.task, error, self._clock.now()), is_last=True)

    def fail_soon(self, opened: OpenStep, error: TaskFailed) -> None:
        """Store the failure of a composite together with the next write."""
        opened.task = failed(opened.task, error, self._clock.now())
        self._end_soon(opened)

    def cancel_attempt(self, opened: OpenStep) -> None:
        """Mark a step as cancelled, unless the whole evaluation is being cancelled or suspended."""
        if self._is_suspending or (self._evaluation is not None and self._evaluation.cancelling()):
            return  # the next attempt resumes it
        opened.task = cancelled_by_program(opened.task, self._clock.now())
        self._end_soon(opened)

    def halt(self, opened: OpenStep) -> None:
        """Close a step that somebody has cancelled; the store already holds the cancellation."""
        self._open.pop(opened.key, None)
        self._unshown.pop(opened.key, None)

    async def end(self, failure: TaskFailed | None = None) -> None:
        """Store everything that is pending; raise StepsLeft if recorded steps were not reached.

        After a failure, mark the step that ended the run, so that a resumed run performs it again.
        """
        if failure is None:
            self.past.require_nothing_left()
        await self.show()
        marks: dict[str, dict[str, Any]] = {key: {"unfit": True} for key in self._rejected}
        if failure is not None and failure.step_key is not None:
            marks.setdefault(failure.step_key, {})["ended_run"] = stored_failure(failure)
        changes = [change for key, facts in marks.items() for change in await self._mark_changes(key, facts)]
        if changes:
            await self.writer.write(changes)

    async def keep(self, key: str, kind: str, text: str, facts: JsonObject) -> None:
        """Store an occurrence that is not a step (a reached limit), after everything that ended before it."""
        task = self._new_record(key, kind, {}, kind, {}, facts)
        task = evolve(task, status=Status.FAILED, error=error_text(text), completed_at=task.started_at)
        opened = OpenStep(key, "", task, self._open.get(self._parent_key(key)))
        self._ids[key] = task.id
        await self._write_end(opened, task, is_last=True)

    def reject(self, key: str) -> None:
        """Keep other runs from reusing the result of a step; stored when the evaluation ends."""
        self._rejected.add(key)

    def stop(self) -> None:
        """Stop writing because the evaluation was cancelled; open steps stay open for the next attempt."""
        self._cancel_flush()
        self.writer.stop()

    async def _mark_changes(self, key: str, facts: dict[str, Any]) -> list[StepChange]:
        """Return the change that adds fields to the record of a step; empty if the step has no record."""
        task_id = self._ids.get(key)
        if task_id is None:
            return []
        task = with_step_fields(await self._store.get(task_id, owner=EVERYONE), **facts)
        return [StepChange(task, key, "", is_new=False, is_params_only=True)]

    def _new_record(
        self,
        key: str,
        name: str,
        inputs: JsonObject,
        kind: str,
        prompt: JsonObject,
        facts: JsonObject | None = None,
    ) -> Task:
        now = self._clock.now()
        params: JsonObject = {STEP: {"key": key, "kind": kind, **(facts or {})}}
        if prompt:
            params[PROMPT] = prompt
        if has_secrets():
            name, inputs, params = redact_json(name), redact_json(inputs), redact_json(params)
        return Task(
            id=self._new_id(),
            parent_id=self._ids.get(self._parent_key(key), self._task.id),
            user_id=self.run.user_id,
            name=name,
            status=Status.IN_PROGRESS,
            priority=self._task.priority,
            inputs=inputs,
            params=params,
            created_at=now,
            started_at=now,
            updated_at=now,
            origin_type=Origin.CREATE,
            task_tree_id=self.run.task_tree_id,
        )

    def _opened(self, key: str, input_hash: str, task: Task, before: Task | None) -> OpenStep:
        opened = OpenStep(key, input_hash, task, self._open.get(self._parent_key(key)))
        if before is not None:
            opened.is_stored = True
            now = self._clock.now()
            opened.task = evolve(
                restarted_step(task, self.past.prior_usage(key, task)),
                status=Status.IN_PROGRESS,
                started_at=now,
                updated_at=now,
                completed_at=None,
                error=None,
            )
        self._ids[key] = opened.task.id
        self._open[key] = self._unshown[key] = opened
        self._flush_soon()
        self._notify()
        return opened

    def _notify(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _parent_key(self, key: str) -> str:
        """Return the key of the parent record; empty for the task itself."""
        for sign in "?#":
            if sign in key:
                return key.rpartition(sign)[0]
        while key:
            key = key.rpartition("/")[0]
            if key in self._ids:
                return key
        return ""

    async def _end(
        self, opened: OpenStep, task: Task, reuse_hash: str | None = None, *, is_last: bool
    ) -> None:
        """Store the end of a step; raise TaskFailed if somebody has cancelled the step."""
        if not await self._write_end(opened, task, reuse_hash, is_last=is_last):
            raise cancelled_step_failure(await self._store.get(opened.task.id, owner=EVERYONE))

    async def _write_end(
        self, opened: OpenStep, task: Task, reuse_hash: str | None = None, *, is_last: bool = False
    ) -> bool:
        """Store the end of a step, and its unstored ancestors; return False if the step has already ended."""
        changes = self._changes((*self._ended.values(), *self._unstored_ancestors(opened)))
        self._ended.clear()
        self._unshown.pop(opened.key, None)
        changes.append(self._change(opened, task, reuse_hash))
        opened.is_stored = True
        try:
            return opened.task.id not in await self.writer.write(changes, is_last=is_last)
        finally:  # not earlier: the run could be suspended before the following step has started
            self._open.pop(opened.key, None)
            self._notify()

    def _end_soon(self, opened: OpenStep) -> None:
        """Let the next write also store the end of a step."""
        self.halt(opened)
        self._ended[opened.key] = opened
        self._flush_soon()
        self._notify()

    def _unstored_ancestors(self, opened: OpenStep) -> list[OpenStep]:
        return list(takewhile(lambda one: not one.is_stored, opened.ancestors()))[::-1]

    def _changes(self, steps: Iterable[OpenStep]) -> list[StepChange]:
        """Return the writes for the steps, each after its unstored ancestors."""
        found: dict[str, StepChange] = {}
        for step in steps:
            for one in (*self._unstored_ancestors(step), step):
                if one.key not in found:
                    found[one.key] = self._change(one, one.task, None)
                    one.is_stored = True
                    self._unshown.pop(one.key, None)
        return list(found.values())

    def _change(self, opened: OpenStep, task: Task, reuse_hash: str | None) -> StepChange:
        is_new = not opened.is_stored
        is_first = is_new and task.parent_id not in self._with_children
        if is_first:
            self._with_children.add(task.parent_id)
        is_continued, opened.is_shown = opened.is_shown, True
        has_outcome = opened.is_composite and task.status in (Status.COMPLETED, Status.FAILED)
        return StepChange(
            task,
            opened.key,
            opened.input_hash,
            reuse_hash,
            is_new,
            is_first,
            is_continued,
            is_outcome_used=has_outcome,
            has_steps=task.id in self._with_children,
        )

    def _flush_soon(self) -> None:
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(SHOWN_SECONDS, self._start_flush)

    def _cancel_flush(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    def _start_flush(self) -> None:
        self._flush_timer = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_quietly())
        else:
            self._flush_soon()

    async def _flush_quietly(self) -> None:
        with suppress(Exception):  # the next write raises it again
            await self._flush()

    async def _flush(self) -> None:
        self._cancel_flush()
        changes = self._changes((*self._unshown.values(), *self._ended.values()))
        self._ended.clear()
        if changes:
            await self.writer.write(changes)


def run_of(task: Task, attempt: int) -> Run:
    return Run(task.id, attempt, task.task_tree_id or task.id, task.user_id)


def missing_changes(
    unwritten: Iterable[StepChange], steps: Sequence[StoredStep], root_id: TaskId
) -> list[StepChange]:
    """Return the unwritten changes that the store lacks, in the form in which a new attempt writes them.

    Another process may have recorded some of the steps in the meantime. Its records count: changes of steps
    that have an outcome are left out, and so is everything below them. Steps below an open step that the
    other process recorded under its own id move below that record.
    """
    stored = {step.key: step for step in steps}
    # A step that can neither be resumed nor replayed gets a new record when it is performed again.
    lasting = [step for step in stored.values() if resumable(step) or has_outcome(step.task)]
    ids = {step.key: step.task.id for step in lasting}
    known = {root_id, *(step.task.id for step in steps)}
    added: set[TaskId] = set()
    renamed: dict[TaskId | None, TaskId] = {}
    """Open steps that another process recorded under its own id: their children belong to that record."""
    found = []
    for change in unwritten:
        task, step = change.task, stored.get(change.key)
        if change.is_params_only:
            if task.id in added or (step is not None and _end_of(step.task) == _end_of(task)):
                found.append(change)
            continue
        if step is not None and has_outcome(step.task):
            continue
        # If a later attempt performed the step and it failed, a response still counts, an older failure not.
        has_ended = step is not None and step.task.id == task.id and step.task.status.is_terminal
        if has_ended and task.status is not Status.COMPLETED:
            continue
        if ids.setdefault(change.key, task.id) != task.id:
            renamed[task.id] = ids[change.key]
            continue
        task = evolve(task, parent_id=renamed.get(task.parent_id, task.parent_id))
        if task.parent_id not in known:
            continue
        is_new = task.id not in known
        known.add(task.id)
        added.add(task.id)
        found.append(
            structs.replace(
                change,
                task=task,
                is_new=is_new,
                is_first_child=is_new,
                is_continued=not is_new and not has_ended,
            )
        )
    return found


def _end_of(task: Task) -> tuple[object, ...]:
    return task.id, task.status, task.completed_at
