"""Cancellation of running steps: polls the store, so that a step can be cancelled from any process."""

import asyncio
import logging

from msgspec import Struct

from weft.errors import WeftError
from weft.evaluator.errors import TaskFailed
from weft.ids import TaskId
from weft.runs.journal import OpenStep
from weft.runs.step_records import cancelled_step_failure
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status, Task

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Interval between checks of the store for cancelled steps."""


class _WatchedStep(Struct, eq=False):
    """A step, the asyncio task that performs it, and the task's `cancelling()` count when the step began."""

    opened: OpenStep
    task: asyncio.Task[object]
    cancelling: int
    cancelled_record: Task | None = None


class CancellationWatcher:
    """Cancels the asyncio tasks of running steps of one evaluation that the store shows as cancelled."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._watched: dict[TaskId, _WatchedStep] = {}
        self._poller: asyncio.Task[None] | None = None

    def began(self, opened: OpenStep) -> None:
        """Watch a step that the current asyncio task performs."""
        task = asyncio.current_task()
        if task is not None:
            self._watched[opened.task.id] = _WatchedStep(opened, task, task.cancelling())
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())

    def halted(self, opened: OpenStep) -> TaskFailed | None:
        """Return the failure of a step that somebody cancelled; None if something else cancelled it."""
        working = self._watched.get(opened.task.id)
        if working is None or working.cancelled_record is None:
            return None
        by, working.cancelled_record = working.cancelled_record, None
        is_only_reason = working.task.uncancel() <= working.cancelling
        return cancelled_step_failure(by) if is_only_reason else None

    def ended(self, opened: OpenStep) -> None:
        """Stop watching a step."""
        working = self._watched.pop(opened.task.id, None)
        if working is not None and working.cancelled_record is not None:
            working.task.uncancel()  # the step ignored its cancellation; its result is discarded

    def stop(self) -> None:
        """Stop polling the store."""
        if self._poller is not None:
            self._poller.cancel()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._check_once()
            except WeftError as error:
                log.warning("cannot check for cancelled steps: %s", error, extra={"action": "halting_failed"})
            except Exception:  # a bug must not end the loop: steps could no longer be cancelled
                log.exception("cannot check for cancelled steps", extra={"action": "halting_failed"})

    async def _check_once(self) -> None:
        ids = [task_id for task_id, working in self._watched.items() if working.opened.is_stored]
        if not ids:
            return
        found = await self._store.get_many(ids, owner=EVERYONE)
        cancelled = {task_id: task for task_id, task in found.items() if task.status is Status.CANCELLED}
        for task_id, task in cancelled.items():
            working = self._watched.get(task_id)
            if working is None or working.cancelled_record is not None:
                continue
            # Cancelling an ancestor also ends this step.
            if all(ancestor.task.id not in cancelled for ancestor in working.opened.ancestors()):
                working.cancelled_record = task
                working.task.cancel()
