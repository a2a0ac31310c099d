"""The scheduler loop: fires what is due. Several may run; each due time is fired once."""

import asyncio
import logging

from weft.clock import Clock
from weft.errors import WeftError
from weft.ids import NewTaskId, TaskId, new_task_id
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.operations import FireSchedule, Firing

log = logging.getLogger(__name__)

BATCH = 100
"""How many due definitions one round looks at."""


class Scheduler:
    """Looks for due schedules and makes their runs; an engine that serves the store runs them."""

    def __init__(
        self,
        store: TaskStore,
        clock: Clock,
        *,
        new_id: NewTaskId = new_task_id,
        poll_seconds: float = 1.0,
    ) -> None:
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self._poll_seconds = poll_seconds

    async def run(self) -> None:
        """Fire schedules until cancelled."""
        while True:
            try:
                await self.fire_due()
            except WeftError as error:
                log.warning("scheduler: %s", error.message, extra={"action": "scheduler_round_failed"})
            await asyncio.sleep(self._poll_seconds)

    async def fire_due(self) -> list[Firing]:
        """Fire everything that is due now, and return what became of each."""
        firings: list[Firing] = []
        now = self._clock.now()
        for task_id in await self._store.due_schedules(now=now, limit=BATCH):
            firing = await self._fire(task_id)
            if firing is not None:
                firings.append(firing)
        return firings

    async def _fire(self, task_id: TaskId) -> Firing | None:
        operation = FireSchedule(
            task_id=task_id,
            has_unfinished_run=await self._store.has_unfinished_run(task_id),
            new_id=self._new_id,
            now=self._clock.now(),
        )
        try:
            firing = await self._store.operate(operation, owner=EVERYONE)
        except WeftError as error:
            # One definition that cannot be fired must not keep the others from firing.
            log.warning(
                "schedule %s: %s", task_id, error.message, extra={"action": "fire_failed", "task_id": task_id}
            )
            return None
        if firing.run is not None:
            log.info("schedule %s fired", task_id, extra={"action": "fired", "run": firing.run.root.id})
        return firing
