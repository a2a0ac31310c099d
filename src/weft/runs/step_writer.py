"""Serialised step writes of one run: in order, batched, and independent of the cancellation of callers."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from weft.errors import TransientError
from weft.ids import TaskId
from weft.limits import Backoff
from weft.runs.errors import RunLost
from weft.store.models import Run, StepChange
from weft.store.protocol import TaskStore

log = logging.getLogger(__name__)

WRITE_BACKOFF = Backoff(delay=0.05, cap=2.0)
"""Before steps are written again while the store is busy: a paid response is worth waiting for."""


class _Write:
    """Changes that are being written, and the future of the caller that waits for them."""

    __slots__ = ("changes", "finished", "outcome")

    def __init__(self, changes: Sequence[StepChange]) -> None:
        self.changes = changes
        self.outcome: frozenset[TaskId] | BaseException | None = None
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self, outcome: frozenset[TaskId] | BaseException) -> None:
        if self.outcome is not None:  # the caller has already received RunLost
            return
        self.outcome = outcome
        if not self.finished.done():
            self.finished.set_result(None)

    async def ended(self, *, is_last: bool) -> frozenset[TaskId]:
        """Return the ids of refused steps.

        A cancellation is delayed until the write ends; with `is_last` it is then ignored.
        """
        cancelled: asyncio.CancelledError | None = None
        while self.outcome is None:
            try:
                await self.finished
            except asyncio.CancelledError as error:
                cancelled = error
                self.finished = asyncio.get_running_loop().create_future()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        if cancelled is not None and not is_last:
            raise cancelled
        return self.outcome


class StepWriter:
    """Serialises step writes of one run; the first failed write is final."""

    def __init__(self, store: TaskStore, run: Run) -> None:
        self._store = store
        self._run = run
        self._waiting: list[_Write] = []
        self._batch: list[_Write] = []
        """The writes in progress."""
        self._writing: asyncio.Task[None] | None = None
        self._final_error: BaseException | None = None
        self._unwritten: list[StepChange] = []
        self.on_idle: Callable[[], None] = lambda: None
        """Called when everything that was accepted is written."""

    async def write(self, changes: Sequence[StepChange], *, is_last: bool = False) -> frozenset[TaskId]:
        """Store changes; return the ids of steps that were refused because somebody has cancelled them.

        `is_last` says that the effect does nothing afterwards. The stored result must then count in this
        evaluation as in the next one, so a cancellation during the write is ignored.
        """
        if self._final_error is not None:
            self._unwritten.extend(changes)
            raise self._final_error
        write = _Write(changes)
        self._waiting.append(write)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
            self._writing.add_done_callback(self._on_written)
        return await write.ended(is_last=is_last)

    async def settle(self) -> None:
        """Wait until everything is written; raise the error of a failed write."""
        while self._writing is not None:
            await asyncio.wait((self._writing,))
        if self._final_error is not None:
            raise self._final_error

    @property
    def has_unwritten(self) -> bool:
        """Return whether changes are not in the store yet, and may need another attempt to be written."""
        return bool(self._batch or self._waiting or self._unwritten)

    async def drain(self) -> tuple[StepChange, ...]:
        """Stop, wait for the write in progress, and return the changes that were not written, in order."""
        self.stop()
        while self._writing is not None:
            await asyncio.wait((self._writing,))
        return tuple(self._unwritten)

    def stop(self) -> None:
        """Accept no more changes, and let all waiting calls of `write` raise RunLost.

        Accepted changes, which may hold a paid response, are still written when the store is back, unless
        another attempt has begun. The next attempt in this process gets the unwritten ones from `drain`.
        """
        self._final_error = self._final_error or RunLost(task_id=self._run.task_id)
        for write in (*self._batch, *self._waiting):
            write.end(self._final_error)

    async def _write_all(self) -> None:
        """Write batches until none is pending; changes that arrive during a write go into the next batch."""
        while self._waiting:
            self._batch, self._waiting = self._waiting, []
            outcome = await self._write_batch([change for write in self._batch for change in write.changes])
            for write in self._batch:
                write.end(outcome)
            self._batch = []

    def _on_written(self, work: asyncio.Task[None]) -> None:
        """Start the next batch, or fail the pending writes if the last one failed or was cancelled."""
        self._writing = None
        error = None if work.cancelled() else work.exception()
        if error is not None:
            self._final_error = error
        elif work.cancelled():
            self._final_error = self._final_error or RunLost(task_id=self._run.task_id)
        elif self._waiting:
            self._writing = asyncio.get_running_loop().create_task(self._write_all())
            self._writing.add_done_callback(self._on_written)
            return
        else:
            self.on_idle()
            return
        accepted: list[StepChange] = []
        for write in (*self._batch, *self._waiting):
            write.end(self._final_error)
            accepted += write.changes
        # Before the changes that came after `stop`: a step may be in both lists, and parents must come first.
        self._unwritten[:0] = accepted
        self._batch, self._waiting = [], []

    async def _write_batch(self, changes: Sequence[StepChange]) -> frozenset[TaskId]:
        failures = 0
        while True:
            try:
                refused = await self._store.write_steps(self._run, changes)
            except TransientError as error:
                if self._final_error is not None:  # stopped: no caller waits, and the store has retried
                    raise
                log.warning("steps not written yet: %s", error, extra={"action": "store_transient_error"})
                failures += 1
                await asyncio.sleep(WRITE_BACKOFF.delay_after(failures))
                continue
            if refused is None:
                raise RunLost(task_id=self._run.task_id)
            return refused
