"""The journal of a run: its steps as task records, each stored before anything that depends on it begins."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, Self

import msgspec

from weft.clock import Clock
from weft.evaluator.effects import Composite, Step
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.ids import NewTaskId, TaskId
from weft.runs.causes import cause_of
from weft.runs.errors import RunLost
from weft.runs.open_step import OpenStep
from weft.runs.past import Past
from weft.runs.records import asked_of, failure_json, halted_failure, inputs_of, kind_of, name_of
from weft.secrets.registry import is_any, redact_json
from weft.store.protocol import EVERYONE, TaskStore
from weft.store.steps import Run, StepChange, StoredStep
from weft.tasks.record import Dependency, JsonObject, Origin, Status, Task, evolve, first_source
from weft.tasks.states import error_text
from weft.tasks.steps import first_mark, mark_of

SHOWN_SECONDS = 0.05
"""A step that takes longer is stored as one in progress, so that who watches sees it."""

CALLED_OFF = "called off: a time limit was reached, or another step failed"


class Journal:
    """Of one evaluation of one task."""

    def __init__(
        self,
        store: TaskStore,
        task: Task,
        attempt: int,
        steps: Sequence[StoredStep],
        *,
        clock: Clock,
        new_id: NewTaskId,
    ) -> None:
        self.past = Past(steps)
        self._store = store
        self._task = task
        self._clock = clock
        self._new_id = new_id
        self._run = Run(task.id, attempt, task.task_tree_id or task.id, task.user_id)
        self._open: dict[str, OpenStep] = {}
        self._hidden: dict[str, OpenStep] = {}
        """Those that are under way and not stored yet; parents come before what is below them."""
        self._ended: dict[str, OpenStep] = {}
        """Those that have ended and whose end is not stored yet."""
        self._failures: list[tuple[OpenStep, TaskFailed]] = []
        """The steps without an outcome but a failure, also those that had it before."""
        self._with_children: set[str | None] = self.past.parents
        self._ids = {step.key: step.task.id for step in steps}
        """The records by key: those below look for theirs."""
        self._alarm: asyncio.TimerHandle | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._lost: BaseException | None = None
        self._is_resting = False
        self.on_change: Callable[[], None] | None = None
        """Called when a step begins or ends, if somebody wants to know."""

    @classmethod
    async def open(
        cls, store: TaskStore, task: Task, attempt: int, *, clock: Clock, new_id: NewTaskId
    ) -> Self:
        """The journal of a new evaluation, with what earlier ones have left."""
        return cls(store, task, attempt, await store.steps_of(task.id), clock=clock, new_id=new_id)

    @property
    def user_id(self) -> str | None:
        """Whose run it is."""
        return self._run.user_id

    def now(self) -> datetime:
        """The time that records are given."""
        return self._clock.now()

    @property
    def tree_id(self) -> TaskId:
        """The flow that the run is in."""
        return self._run.task_tree_id

    def begin(self, step: Step, input_hash: str, before: Task | None = None) -> OpenStep:
        """Open a step; `before` is its record if there is one that may go on."""
        opened = self._opened(step.key, input_hash, self._record(step) if before is None else before, before)
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
        """Open a part of a step that is a record of its own: a turn, the call of a tool, a question."""
        if before is not None:
            return self._opened(key, input_hash, before, before)
        return self._opened(key, input_hash, self._new(key, name, inputs or {}, kind, {}, facts), None)

    async def show(self) -> None:
        """Store now what is under way, and not in a moment."""
        await self._flush()

    def under_way(self) -> Collection[OpenStep]:
        """The steps that have begun and not ended."""
        return self._open.values()

    def rest(self) -> tuple[Dependency, ...]:
        """Let what is under way stay so when it is cancelled now; what the task itself depends on."""
        self._is_resting = True
        steps = frozenset(self._ids.values())
        return tuple(one for one in self._task.dependencies if one.id not in steps)

    async def complete(
        self,
        opened: OpenStep,
        result: JsonObject,
        *,
        reuse_hash: str | None = None,
        source: Task | None = None,
    ) -> JsonObject:
        """Store the result, which is the source's if there is one; what was stored: it holds no secrets."""
        task = self._completed(opened, result)
        if source is not None:
            task = evolve(task, origin_type=Origin.LINK, original_task_id=first_source(source))
        await self._end(opened, task, reuse_hash)
        return task.result or {}

    def complete_soon(self, opened: OpenStep, result: JsonObject) -> None:
        """Store the result with whatever is stored next: nothing but what is shown depends on it."""
        opened.task = self._completed(opened, result)
        self._end_soon(opened)

    async def answer(self, opened: OpenStep, result: JsonObject) -> bool:
        """Store the answer to a question; False: somebody else was quicker, or it was cancelled."""
        return await self._ended_now(opened, self._completed(opened, result))

    def ended_elsewhere(self, opened: OpenStep) -> None:
        """Note that the end of a question was stored by somebody else."""
        self._open.pop(opened.key, None)
        self._hidden.pop(opened.key, None)
        self._changed()

    async def fail(self, opened: OpenStep, error: TaskFailed) -> None:
        """Store a failure; on replay it is raised again, unless a budget was used up: it is counted anew."""
        opened.task = self._failed(opened, error)
        self._failures.append((opened, error))
        await self._end(opened, opened.task)

    def fail_soon(self, opened: OpenStep, error: TaskFailed) -> None:
        """Store the failure of a composite with whatever is stored next."""
        opened.task = self._failed(opened, error)
        self._end_soon(opened)

    def call_off(self, opened: OpenStep) -> None:
        """Note that a step was cancelled; that is stored unless the whole evaluation is."""
        if self._is_resting:
            return
        now = self._clock.now()
        opened.task = evolve(
            opened.task,
            status=Status.CANCELLED,
            error=CALLED_OFF,
            params=_with_mark(opened.task, called_off=True).params,
            completed_at=now,
            updated_at=now,
        )
        self._end_soon(opened)

    def halt(self, opened: OpenStep, error: TaskFailed) -> None:
        """Note the failure of a step that somebody has cancelled, as the store says already."""
        self._open.pop(opened.key, None)
        self._hidden.pop(opened.key, None)
        self._failures.append((opened, error))

    async def end(self, failure: TaskFailed | None = None) -> None:
        """Store what is left. Of a failure: the steps that ended the run are to be performed again."""
        if failure is None:
            self.past.require_nothing_left()
        await self._flush()
        if failure is not None:
            await self._mark_what_failed(failure)

    def stop(self) -> None:
        """The evaluation was cancelled as a whole: what is under way stays so, for the next one."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def failed_before(self, step: Step, stored: StoredStep, error: TaskFailed) -> None:
        """Note a failure that is known and raised again."""
        opened = OpenStep(step.key, stored.input_hash, stored.task, None)
        opened.is_stored = True
        self._failures.append((opened, error))

    async def _mark_what_failed(self, failure: TaskFailed) -> None:
        """Mark the step whose failure has ended the run: it is performed again when the run goes on."""
        key, message = cause_of(failure)
        ended = [
            opened
            for opened, error in self._failures
            if opened.key == key or (key is None and error.error.message == message)
        ]
        changes = [self._change(opened, _with_mark(opened.task, ended_run=True), None) for opened in ended]
        if changes:
            await self._write([msgspec.structs.replace(change, is_told=True) for change in changes])

    def _record(self, step: Step) -> Task:
        return self._new(step.key, name_of(step), inputs_of(step), kind_of(step), asked_of(step))

    def _new(
        self,
        key: str,
        name: str,
        inputs: JsonObject,
        kind: str,
        asked: JsonObject,
        facts: JsonObject | None = None,
    ) -> Task:
        now = self._clock.now()
        params: JsonObject = {"step": {"key": key, "kind": kind, **(facts or {})}}
        if asked:
            params["asked"] = asked
        if is_any():
            name, inputs, params = redact_json(name), redact_json(inputs), redact_json(params)
        return Task(
            id=self._new_id(),
            parent_id=self._parent_id(key),
            user_id=self._run.user_id,
            name=name,
            status=Status.IN_PROGRESS,
            priority=self._task.priority,
            inputs=inputs,
            params=params,
            created_at=now,
            started_at=now,
            updated_at=now,
            origin_type=Origin.CREATE,
            task_tree_id=self._run.task_tree_id,
        )

    def _opened(self, key: str, input_hash: str, task: Task, before: Task | None) -> OpenStep:
        opened = OpenStep(key, input_hash, task, self._open.get(self._parent_key(key)))
        if before is not None:
            opened.is_stored = True
            now = self._clock.now()
            params = {**(task.params or {}), "step": first_mark(task)}
            opened.task = evolve(
                task,
                status=Status.IN_PROGRESS,
                params=params,
                started_at=now,
                updated_at=now,
                completed_at=None,
                error=None,
            )
        self._ids[key] = opened.task.id
        self._open[key] = self._hidden[key] = opened
        self._show_soon()
        self._changed()
        return opened

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()

    def _parent_key(self, key: str) -> str:
        """The key of the record that the one with this key is below; empty: the task itself."""
        if "?" in key:
            return key.rpartition("?")[0]
        if "#" in key:
            return key.rpartition("#")[0]
        while key:
            key = key.rpartition("/")[0]
            if key in self._ids:
                return key
        return ""

    def _parent_id(self, key: str) -> TaskId:
        return self._ids.get(self._parent_key(key), self._task.id)

    def _failed(self, opened: OpenStep, error: TaskFailed) -> Task:
        now = self._clock.now()
        mark = mark_of(opened.task)
        if not isinstance(error, BudgetExceeded):
            mark = {**mark, "failure": failure_json(error)}
        params = {**(opened.task.params or {}), "step": mark}
        return evolve(
            opened.task,
            status=Status.FAILED,
            error=error_text(error.error.message),
            params=redact_json(params) if is_any() else params,
            completed_at=now,
            updated_at=now,
        )

    def _completed(self, opened: OpenStep, result: JsonObject) -> Task:
        now = self._clock.now()
        return evolve(
            opened.task,
            status=Status.COMPLETED,
            result=redact_json(result) if is_any() else result,
            progress=1.0,
            completed_at=now,
            updated_at=now,
            error=None,
        )

    async def _end(self, opened: OpenStep, task: Task, reuse_hash: str | None = None) -> None:
        """Store the end of a step; raises TaskFailed when somebody has cancelled it."""
        if not await self._ended_now(opened, task, reuse_hash):
            raise halted_failure(await self._store.get(opened.task.id, owner=EVERYONE))

    async def _ended_now(self, opened: OpenStep, task: Task, reuse_hash: str | None = None) -> bool:
        """Store the end of a step, and those around it that are not stored yet; whether it counts."""
        changes = [self._shown(one) for one in (*self._hidden_around(opened), *self._ended.values())]
        self._ended.clear()
        self._hidden.pop(opened.key, None)
        self._open.pop(opened.key, None)
        changes.append(self._change(opened, task, reuse_hash))
        opened.is_stored = True
        self._changed()
        return opened.task.id not in await self._write(changes)

    def _end_soon(self, opened: OpenStep) -> None:
        """Store the end of a step with whatever is stored next, for that may depend on it."""
        self._open.pop(opened.key, None)
        self._hidden.pop(opened.key, None)
        self._ended[opened.key] = opened
        self._show_soon()
        self._changed()

    def _hidden_around(self, opened: OpenStep) -> list[OpenStep]:
        found = []
        around = opened.parent
        while around is not None and not around.is_stored:
            found.append(around)
            around = around.parent
        return found[::-1]

    def _shown(self, opened: OpenStep) -> StepChange:
        change = self._change(opened, opened.task, None)
        opened.is_stored = True
        self._hidden.pop(opened.key, None)
        return change

    def _change(self, opened: OpenStep, task: Task, reuse_hash: str | None) -> StepChange:
        is_new = not opened.is_stored
        is_first = is_new and task.parent_id not in self._with_children
        if is_first:
            self._with_children.add(task.parent_id)
        return StepChange(task, opened.key, opened.input_hash, reuse_hash, is_new, is_first)

    def _show_soon(self) -> None:
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(SHOWN_SECONDS, self._show)

    def _show(self) -> None:
        self._alarm = None
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.get_running_loop().create_task(self._flush_quietly())
        else:
            self._show_soon()

    async def _flush_quietly(self) -> None:
        try:
            await self._flush()
        except Exception as error:  # told to the next step that is stored
            self._lost = error

    async def _flush(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        changes = [self._shown(opened) for opened in (*self._hidden.values(), *self._ended.values())]
        self._ended.clear()
        if changes:
            await self._write(changes)

    async def _write(self, changes: Sequence[StepChange]) -> frozenset[TaskId]:
        """The steps that were not written, for somebody cancelled them."""
        if self._lost is not None:
            raise self._lost
        refused = await self._store.write_steps(self._run, changes)
        if refused is None:
            self._lost = RunLost(task_id=self._task.id)
            raise self._lost
        return refused


def _with_mark(task: Task, **facts: Any) -> Task:
    return evolve(task, params={**(task.params or {}), "step": {**mark_of(task), **facts}})
