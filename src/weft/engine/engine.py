"""The local engine: claims what is ready, runs it, writes how it ended; one loop for all flows."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection
from functools import partial
from types import TracebackType
from typing import Self

from msgspec import Struct

from weft.clock import Clock, SystemClock
from weft.engine.attempt import Attempts
from weft.engine.limits import EngineLimits, Slots
from weft.engine.progress import ProgressReports
from weft.engine.worker import Worker
from weft.errors import TransientError, WeftError
from weft.executors.registry import ExecutorRegistry
from weft.ids import TaskId
from weft.store.protocol import EVERYONE, Claim, Claimed, Ending, Outlook, Owner, TaskStore, Wanted
from weft.tasks.record import method_of

log = logging.getLogger(__name__)


class _FlowRun(Struct):
    """A flow that this engine takes part in."""

    ended: asyncio.Event
    running: int = 0
    """How many of its tasks run here."""


class Engine:
    """Runs flows of one store. Used as an async context manager; leaving it gives back what is unfinished."""

    def __init__(
        self,
        store: TaskStore,
        executors: ExecutorRegistry,
        *,
        limits: EngineLimits | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._limits = limits or EngineLimits()
        self._clock = clock or SystemClock()
        self._slots = Slots(self._limits)
        self._attempts = Attempts(
            store, executors, clock=self._clock, chance=chance, max_attempts=self._limits.max_attempts
        )
        self._reports = ProgressReports(store, self._clock)
        # By claim and not by task: an attempt that was lost may still be letting go when the next one begins.
        self._running: dict[Claim, asyncio.Task[None]] = {}
        self._worker = Worker(store, self._clock, self._limits, running=self._running, on_lost=self._lose)
        self._flows: dict[TaskId, _FlowRun] = {}
        self._endings: list[Ending] = []
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._pump: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._end: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._worker.start()
        self._pump = asyncio.create_task(self._work(), name="weft-engine")
        self._looking = asyncio.create_task(self._keep_looking(), name="weft-engine-poll")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def run(self, root_id: TaskId, *, owner: Owner = EVERYONE) -> None:
        """Run a flow until nothing of it can go on by itself, or the engine is stopped."""
        await self._store.run_flow(root_id, owner=owner)
        await self.follow(root_id)

    async def follow(self, root_id: TaskId) -> None:
        """Take part in a flow that is to be run, until it ends or the engine is stopped."""
        await (await self.join(root_id)).wait()
        if self._pump is not None and self._pump.done():
            await self._pump  # raises what ended it, if it failed

    async def join(self, root_id: TaskId) -> asyncio.Event:
        """Take part in a flow that is to be run, without waiting; the event is set when it is over."""
        if self._pump is None or self._pump.done():
            raise RuntimeError("the engine is not running")
        flow = self._flows.setdefault(root_id, _FlowRun(asyncio.Event()))
        self._wake.set()
        return flow.ended

    async def serve(self) -> None:
        """Take part in every flow that is to be run, now and later, until the engine is stopped."""
        while not self._is_stopping and self._pump is not None and not self._pump.done():
            for root_id in await self._store.running_flows(owner=EVERYONE):
                if root_id not in self._flows:
                    await self.join(root_id)
            await asyncio.wait([self._pump], timeout=self._limits.poll_seconds)
        if self._pump is not None and self._pump.done():
            await self._pump

    def cancelled(self, task_ids: Collection[TaskId]) -> None:
        """Stop the attempts at these tasks, if they run here: the store has taken them from us."""
        self._lose([claim for claim in self._running if claim.task_id in task_ids])

    async def stop(self, *, grace_seconds: float | None = None) -> None:
        """Claim no more, let attempts end within the grace time, give back the rest.

        Called again while it is under way, it waits for the same end: a signal and the leaving of the context
        both stop the engine.
        """
        if self._end is None:
            grace = self._limits.grace_seconds if grace_seconds is None else grace_seconds
            self._end = asyncio.create_task(self._stop(grace), name="weft-engine-stop")
        await asyncio.shield(self._end)

    async def _stop(self, grace: float) -> None:
        self._is_stopping = True
        self._wake.set()
        if self._pump is None:
            return
        if self._running:
            await asyncio.wait(self._running.values(), timeout=grace)
        self._lose(tuple(self._running))
        await asyncio.wait([self._pump])
        if self._looking is not None:
            self._looking.cancel()
        await self._worker.stop()

    async def _work(self) -> None:
        """Write endings and claim tasks, together, until stopped and empty."""
        try:
            while not self._is_stopping or self._running or self._endings:
                self._wake.clear()
                outlook = await self._advance_patiently()
                if not outlook.claimed and not self._endings:
                    await self._end_flows()
                if not self._wake.is_set():
                    await self._sleep(outlook)
        finally:
            self._lose(tuple(self._running))
            for flow in self._flows.values():
                flow.ended.set()

    async def _advance_patiently(self) -> Outlook:
        try:
            return await self._advance()
        except TransientError as error:
            log.warning("store: %s", error.message, extra={"action": "store_transient_error"})
            if self._is_stopping:
                raise
            await asyncio.sleep(self._limits.poll_seconds)
            return Outlook()

    async def _advance(self) -> Outlook:
        endings, self._endings = self._endings, []
        wanted = Wanted(
            flows=() if self._is_stopping else tuple(self._flows),
            worker=self._worker.id,
            now=self._clock.now(),
            slots=self._slots.free,
            free=self._slots.free_by_executor,
        )
        try:
            held, outlook = await self._store.advance(endings, wanted)
        except WeftError:
            self._endings = endings + self._endings  # nothing was written; they are tried again
            raise
        for ending, outcome in zip(endings, held, strict=True):
            self._settle(ending, outcome)
        for claimed in outlook.claimed:
            self._begin(claimed)
        return outlook

    def _settle(self, ending: Ending, outcome: bool | WeftError) -> None:
        claim = ending.claim
        if isinstance(outcome, WeftError):
            self._endings.append(self._attempts.refused(ending, outcome))
            self._wake.set()
        elif not outcome:
            log.warning(
                "late result of task %s, attempt %s, dropped",
                claim.task_id,
                claim.attempt,
                extra={"action": "finish_lost_claim", "task_id": claim.task_id, "attempt": claim.attempt},
            )

    def _begin(self, claimed: Claimed) -> None:
        claim, method = claimed.claim, method_of(claimed.task)
        self._slots.take(method)
        self._flows[claim.task_tree_id].running += 1
        work = asyncio.create_task(self._attempt(claimed, method))
        self._running[claim] = work
        # A task that is cancelled before its first step runs no code of its own.
        work.add_done_callback(partial(self._let_go, claim, method))

    async def _attempt(self, claimed: Claimed, method: str) -> None:
        claim = claimed.claim
        try:
            ending = await self._attempts.perform(claimed, self._reports.of(claim))
            self._endings.append(ending)  # a statement of its own: the list is another one after the wait
        finally:
            # Here and not in the callback: that would cost a chain of tasks a turn of the event loop each.
            self._let_go(claim, method)

    def _let_go(self, claim: Claim, method: str, _work: asyncio.Task[None] | None = None) -> None:
        """Forget an attempt, however it ended; the second time does nothing."""
        if self._running.pop(claim, None) is not None:
            self._slots.give(method)
            self._flows[claim.task_tree_id].running -= 1
            self._wake.set()

    def _lose(self, claims: Collection[Claim]) -> None:
        for claim in claims:
            self._running[claim].cancel()

    async def _end_flows(self) -> None:
        """Let go of the flows that are over: nothing of them can go on by itself, or they were stopped."""
        for root_id, flow in list(self._flows.items()):
            if flow.running == 0 and not self._is_stopping and await self._store.end_flow(root_id):
                del self._flows[root_id]
                flow.ended.set()

    async def _sleep(self, outlook: Outlook) -> None:
        """Wait for something to do: an attempt that ended, a delayed task, the next look at the store."""
        if outlook.next_ready_at is None:
            await self._wake.wait()
            return
        seconds = (outlook.next_ready_at - self._clock.now()).total_seconds()
        alarm = asyncio.get_running_loop().call_later(max(seconds, 0.001), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _keep_looking(self) -> None:
        """Wake the pump now and then: other processes make tasks ready, and end flows."""
        while True:
            await asyncio.sleep(self._limits.poll_seconds)
            self._wake.set()
