"""Cancellation of running steps: polls the store, so that a step can be cancelled from any process."""

import asyncio
import logging

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


class _Working:
    """A step, the asyncio task that performs it, and that task's `cancelling()` count at the start."""

    __slots__ = ("cancelling", "halted_by", "opened", "task")

    def __init__(self, opened: OpenStep, task: asyncio.Task[object]) -> None:
        self.opened = opened
        self.task = task
        self.cancelling = task.cancelling()
        self.halted_by: Task | None = None


class CancellationWatcher:
    """Watches the running steps of one evaluation, and cancels those that somebody has cancelled."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._working: dict[TaskId, _Working] = {}
        self._looking: asyncio.Task[None] | None = None

    def began(self, opened: OpenStep) -> None:
        """Watch a step that the current asyncio task performs."""
        task = asyncio.current_task()
        if task is not None:
            self._working[opened.task.id] = _Working(opened, task)
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking())

    def halted(self, opened: OpenStep) -> TaskFailed | None:
        """Return the failure of a step that somebody cancelled; None if its task is cancelled otherwise."""
        working = self._working.get(opened.task.id)
        if working is None or working.halted_by is None:
            return None
        by, working.halted_by = working.halted_by, None
        is_only_reason = working.task.uncancel() <= working.cancelling
        return cancelled_step_failure(by) if is_only_reason else None

    def ended(self, opened: OpenStep) -> None:
        """Stop watching a step."""
        working = self._working.pop(opened.task.id, None)
        if working is not None and working.halted_by is not None:
            working.task.uncancel()  # it ignored the cancellation; its result is discarded

    def stop(self) -> None:
        """Stop polling the store."""
        if self._looking is not None:
            self._looking.cancel()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self._look()
            except WeftError as error:
                log.warning("cannot check for cancelled steps: %s", error, extra={"action": "halting_failed"})
            except Exception:  # a bug must not end the loop: steps could no longer be cancelled
                log.exception("cannot check for cancelled steps", extra={"action": "halting_failed"})

    async def _look(self) -> None:
        ids = [task_id for task_id, working in self._working.items() if working.opened.is_stored]
        if not ids:
            return
        found = await self._store.get_many(ids, owner=EVERYONE)
        cancelled = {task_id: task for task_id, task in found.items() if task.status is Status.CANCELLED}
        for task_id, task in cancelled.items():
            working = self._working.get(task_id)
            if working is None or working.halted_by is not None or _is_below(working.opened, cancelled):
                continue
            working.halted_by = task
            working.task.cancel()


def _is_below(opened: OpenStep, cancelled: dict[TaskId, Task]) -> bool:
    """Return whether an ancestor is cancelled too, which ends this step with it."""
    around = opened.parent
    while around is not None:
        if around.task.id in cancelled:
            return True
        around = around.parent
    return False
