"""The scheduler loop: fire what is due. Several may run; each due time is fired once."""

import asyncio
import logging
from collections.abc import Container
from datetime import datetime, timedelta

from msgspec import Struct

from weft.clock import Clock
from weft.errors import WeftError
from weft.ids import NewTaskId, TaskId, new_task_id
from weft.store.protocol import EVERYONE, DueSchedule, TaskFilter, TaskStore
from weft.tasks.operations import FireSchedule, Firing, ReplanSchedule, WakeTasks
from weft.tasks.operations.fire import ON_TIME, is_fired_in_future
from weft.tasks.schedules.schedule import waits

FIRST_WAIT = timedelta(seconds=1)
LONGEST_WAIT = timedelta(minutes=1)
"""How long a task that failed is left alone: twice as long each time."""

TELL_EVERY = timedelta(minutes=1)
"""How often the log speaks of one and the same."""


class _Failure(Struct, frozen=True):
    failed_at: datetime
    wait: timedelta
    told_at: datetime


class Failures:
    """The tasks that failed the last time they were tried.

    Times are compared by their distance in either direction: a clock that was put back by a year must not
    make anything wait for a year.
    """

    def __init__(self) -> None:
        self._failures: dict[TaskId, _Failure] = {}

    def is_waiting(self, task_id: TaskId, now: datetime) -> bool:
        """Whether it failed so lately that it is to be left alone."""
        failure = self._failures.get(task_id)
        return failure is not None and abs(now - failure.failed_at) < failure.wait

    def add(self, task_id: TaskId, now: datetime) -> bool:
        """Note that it failed, and return whether that is to be told."""
        before = self._failures.get(task_id)
        if before is None:
            self._failures[task_id] = _Failure(now, FIRST_WAIT, now)
            return True
        is_told = abs(now - before.told_at) >= TELL_EVERY
        wait = min(before.wait * 2, LONGEST_WAIT)
        self._failures[task_id] = _Failure(now, wait, now if is_told else before.told_at)
        return is_told

    def forget(self, task_id: TaskId) -> None:
        """Note that it succeeded."""
        self._failures.pop(task_id, None)

    def keep_only(self, task_ids: Container[TaskId]) -> None:
        """Forget all others: nobody tries them any more."""
        self._failures = {key: value for key, value in self._failures.items() if key in task_ids}


log = logging.getLogger(__name__)

BATCH = 1000
"""How many due definitions are read at a time; a round sees all."""

MAX_CAUGHT_UP = 100
"""How many missed runs of one definition a round makes; the others have their turn before the rest."""


class Scheduler:
    """Looks for due schedules and makes their runs; an engine that serves the store runs them."""

    def __init__(
        self,
        store: TaskStore,
        clock: Clock,
        *,
        new_id: NewTaskId = new_task_id,
        poll_seconds: float = 1.0,
        batch: int = BATCH,
    ) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._poll_seconds = poll_seconds
        self._batch = batch
        self._failures = Failures()

    async def run(self) -> None:
        """Fire schedules until cancelled."""
        last: datetime | None = None
        while True:
            try:
                now = self._clock.now()
                # At the start, and whenever the clock was put back.
                if last is None or now < last - ON_TIME:
                    await self.replan()
                last = now
                await self.fire_due()
                await self.wake_overdue()
            except Exception as error:
                # A store that is away for an hour is told of every second; its message says it all.
                log.warning(
                    "scheduler: %s",
                    error,
                    exc_info=not isinstance(error, WeftError),
                    extra={"action": "scheduler_round_failed"},
                )
            await asyncio.sleep(self._poll_seconds)

    async def replan(self) -> int:
        """Work out anew when schedules are due that a clock fired which was ahead; how many there were."""
        now, offset, replanned = self._clock.now(), 0, 0
        while True:
            wanted = TaskFilter(only_scheduled=True, limit=self._batch, offset=offset)
            tasks = (await self._store.list(wanted, owner=EVERYONE)).tasks
            for task in tasks:
                if is_fired_in_future(task, now):
                    replanned += await self._store.operate(ReplanSchedule(task.id, now), owner=EVERYONE)
            if len(tasks) < self._batch:
                break
            offset += len(tasks)
        if replanned:
            log.warning(
                "the clock was put back: %d schedules are planned again",
                replanned,
                extra={"action": "schedules_replanned"},
            )
        return replanned

    async def fire_due(self) -> list[Firing]:
        """Fire everything that is due now, and return what became of each."""
        now = self._clock.now()
        firings: list[Firing] = []
        seen: set[TaskId] = set()
        page = await self._store.due_schedules(now=now, limit=self._batch)
        while page:
            for due in page:
                # One that is still due after its turn comes again further on.
                if due.task_id not in seen:
                    seen.add(due.task_id)
                    firings += await self._catch_up(due, now)
            page = await self._store.due_schedules(now=now, limit=self._batch, after=page[-1])
        self._failures.keep_only(seen)
        return firings

    async def wake_overdue(self) -> None:
        """Have what rests for a person go on where a time limit of its program is reached: it times out."""
        now = self._clock.now()
        for task_id in await self._store.overdue_rests(now=now, limit=self._batch):
            await self._store.operate(WakeTasks(task_id, overdue_at=now), owner=EVERYONE)

    async def _catch_up(self, due: DueSchedule, now: datetime) -> list[Firing]:
        """Make the runs of a definition that can be made now, at most so many."""
        firings: list[Firing] = []
        if self._failures.is_waiting(due.task_id, now):
            return firings
        try:
            # Only a look, which spares the transaction; the transaction decides.
            if waits(due.params, has_unfinished_run=due.has_unfinished_run):
                return firings
            while len(firings) < MAX_CAUGHT_UP and (not firings or firings[-1].is_due_again):
                firings.append(await self._fire(due.task_id))
        except Exception:
            # One definition that cannot be fired must not keep the others from firing.
            if self._failures.add(due.task_id, now):
                log.exception(
                    "schedule %s cannot be fired",
                    due.task_id,
                    extra={"action": "fire_failed", "task_id": due.task_id},
                )
        else:
            self._failures.forget(due.task_id)
        return firings

    async def _fire(self, task_id: TaskId) -> Firing:
        operation = FireSchedule(task_id=task_id, new_id=self._new_id, now=self._clock.now())
        firing = await self._store.operate(operation, owner=EVERYONE)
        if firing.run is not None:
            log.info("schedule %s fired", task_id, extra={"action": "fired", "run": firing.run.root.id})
        return firing
