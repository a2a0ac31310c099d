"""The scheduler loop: fires due schedules. Several processes may run it; each due time is fired once."""

import asyncio
import logging
from collections.abc import Container
from datetime import datetime, timedelta

from msgspec import Struct

from weft.clock import Clock
from weft.errors import WeftError
from weft.ids import NewTaskId, TaskId, new_task_id
from weft.limits import Backoff
from weft.store.protocol import EVERYONE, DueSchedule, TaskFilter, TaskStore
from weft.tasks.operations import FireSchedule, Firing, ReplanSchedule, ResumeSuspended
from weft.tasks.operations.fire import ON_TIME, is_fired_in_future
from weft.tasks.schedules.schedule import waits

FIRING_BACKOFF = Backoff(delay=1.0, cap=60.0)
"""Before a schedule that could not be fired is tried again."""

LOG_INTERVAL = timedelta(minutes=1)
"""Minimum interval between log entries about the same task."""


class _Failure(Struct, frozen=True):
    failed_at: datetime
    count: int
    logged_at: datetime


class FiringFailures:
    """Scheduled tasks that could not be fired when last tried, with growing delays.

    Times are compared by absolute distance: a clock that is set back by a year must not add a year of delay.
    """

    def __init__(self) -> None:
        self._failures: dict[TaskId, _Failure] = {}

    def is_waiting(self, task_id: TaskId, now: datetime) -> bool:
        """Return whether the last firing failed too recently to try again."""
        failure = self._failures.get(task_id)
        if failure is None:
            return False
        return abs((now - failure.failed_at).total_seconds()) < FIRING_BACKOFF.delay_after(failure.count)

    def add(self, task_id: TaskId, now: datetime) -> bool:
        """Record a failure; return whether to log it."""
        before = self._failures.get(task_id)
        if before is None:
            self._failures[task_id] = _Failure(now, 1, now)
            return True
        is_logged = abs(now - before.logged_at) >= LOG_INTERVAL
        self._failures[task_id] = _Failure(now, before.count + 1, now if is_logged else before.logged_at)
        return is_logged

    def forget(self, task_id: TaskId) -> None:
        """Record a success."""
        self._failures.pop(task_id, None)

    def keep_only(self, task_ids: Container[TaskId]) -> None:
        """Forget all other tasks: they are no longer due."""
        self._failures = {key: value for key, value in self._failures.items() if key in task_ids}


log = logging.getLogger(__name__)

BATCH = 1000
"""Maximum number of definitions per query; a round makes as many queries as it needs."""

MAX_CAUGHT_UP = 100
"""Maximum number of runs made for one definition per round, so that other definitions get their turn."""


class Scheduler:
    """Polls for due schedules and creates their runs; an engine that serves the store executes them."""

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
        self._failures = FiringFailures()

    async def run(self) -> None:
        """Fire schedules until cancelled."""
        last: datetime | None = None
        while True:
            try:
                now = self._clock.now()
                # At the start, and whenever the clock was set back.
                if last is None or now < last - ON_TIME:
                    await self.replan()
                last = now
                await self.fire_due()
                await self.wake_overdue()
            except Exception as error:
                # No traceback for errors of the store: an unavailable store is logged every second.
                log.warning(
                    "scheduler: %s",
                    error,
                    exc_info=not isinstance(error, WeftError),
                    extra={"action": "scheduler_round_failed"},
                )
            await asyncio.sleep(self._poll_seconds)

    async def replan(self) -> int:
        """Recompute due times of schedules fired by a clock that was ahead; return how many there were."""
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
                "the clock was set back; replanned %d schedules",
                replanned,
                extra={"action": "schedules_replanned"},
            )
        return replanned

    async def fire_due(self) -> list[Firing]:
        """Fire all schedules that are due now, and return the outcome of each."""
        now = self._clock.now()
        firings: list[Firing] = []
        seen: set[TaskId] = set()
        page = await self._store.due_schedules(now=now, limit=self._batch)
        while page:
            for due in page:
                # A schedule that is still due after its turn appears again on a later page.
                if due.task_id not in seen:
                    seen.add(due.task_id)
                    firings += await self._catch_up(due, now)
            page = await self._store.due_schedules(now=now, limit=self._batch, after=page[-1])
        self._failures.keep_only(seen)
        return firings

    async def wake_overdue(self) -> None:
        """Resume suspended tasks with a time limit that has passed, so that they time out."""
        now = self._clock.now()
        for task_id in await self._store.overdue_suspensions(now=now, limit=self._batch):
            await self._store.operate(ResumeSuspended(task_id, overdue_at=now), owner=EVERYONE)

    async def _catch_up(self, due: DueSchedule, now: datetime) -> list[Firing]:
        """Create the runs of a definition that are due, at most `MAX_CAUGHT_UP`."""
        firings: list[Firing] = []
        if self._failures.is_waiting(due.task_id, now):
            return firings
        try:
            # A cheap check that may save the transaction; the transaction decides.
            if waits(due.params, has_unfinished_run=due.has_unfinished_run):
                return firings
            while len(firings) < MAX_CAUGHT_UP and (not firings or firings[-1].is_due_again):
                firings.append(await self._fire(due.task_id))
        except Exception:
            # A definition that cannot be fired must not delay the others.
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
