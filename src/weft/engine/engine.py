"""The local engine: claims ready tasks, runs them, and stores their outcomes; one loop for all flows."""

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from contextvars import Context
from typing import Self

from msgspec import Struct

from weft.engine.attempt import Attempts, new_report
from weft.engine.limits import EngineLimits, Slots, StoreTolerance
from weft.engine.running import RunningAttempt
from weft.engine.worker import Worker
from weft.errors import WeftError
from weft.executors.registry import ExecutorRegistry
from weft.ids import TaskId
from weft.secrets.references import SecretSettings
from weft.store.errors import StoreUnusable
from weft.store.protocol import (
    EVERYONE,
    AttemptResult,
    Claim,
    Claimed,
    ClaimRequest,
    ClaimResult,
    Owner,
    Suspension,
    TaskStore,
)
from weft.telemetry.spans import current_context, span

log = logging.getLogger(__name__)

NO_METHOD = frozenset({""})
"""Method of tasks that only group others: every engine can perform them."""


SETTLE_SECONDS = 1.0
"""Minimum time that a stopping engine waits for the store, to write the outcomes of its attempts."""

IDLE_GRACE_SECONDS = 2.0
"""How long a stopping engine without running attempts waits for an unavailable store."""


class _FlowRun(Struct):
    """A flow that this engine helps to run."""

    ended: asyncio.Event
    context: Context | None = None
    """Context of the caller, so that the spans of the tasks are children of the caller's span."""
    running: int = 0
    """Number of its tasks that run here."""


class Engine:
    """Runs flows of one store. An async context manager; leaving it releases unfinished tasks."""

    def __init__(
        self,
        store: TaskStore,
        executors: ExecutorRegistry,
        *,
        limits: EngineLimits | None = None,
        chance: Callable[[], float] = random.random,
        secrets: SecretSettings | None = None,
    ) -> None:
        self._store = store
        self._executors = executors
        self._limits = limits or EngineLimits()
        self._clock = store.clock
        self._slots = Slots(self._limits)
        self._attempts = Attempts(
            store,
            executors,
            clock=self._clock,
            chance=chance,
            limits=self._limits,
            secrets=secrets,
            has_lease=lambda: self._worker.has_lease,
            on_store_unusable=self._end,
        )
        # By claim and not by task: a lost attempt may still be ending when the next one starts.
        self._running: dict[Claim, RunningAttempt] = {}
        self._worker = Worker(
            store,
            self._limits,
            running=self._running,
            methods=lambda: self._executors.methods | NO_METHOD,
            known=self._known_claims,
            on_lost=self._cancel_attempts,
            on_end=self._end,
        )
        self._flows: dict[TaskId, _FlowRun] = {}
        self._may_learn = False
        """Whether to look again for executors of unknown methods; set by each poll."""
        self._logged_methods: set[str] = set()
        self._endings: list[AttemptResult | Suspension] = []
        """Outcomes of ended attempts that are not written yet."""
        self._being_written: Sequence[AttemptResult | Suspension] = ()
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._store_limit: asyncio.Timeout | None = None
        self._store_deadline: float | None = None
        self._is_without_store = False
        self._failure: Exception | None = None
        self._main_loop: asyncio.Task[None] | None = None
        self._poller: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._worker.start()
        self._main_loop = asyncio.create_task(self._work(), name="weft-engine")
        self._poller = asyncio.create_task(self._poll(), name="weft-engine-poll")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def is_running(self) -> bool:
        """Return whether the engine was started and has not ended, by `stop` or an error of the store."""
        return self._main_loop is not None and not self._main_loop.done()

    @property
    def is_stopping(self) -> bool:
        """Return whether the engine claims no more tasks: it is stopping, or has ended."""
        return self._is_stopping

    async def ended(self) -> None:
        """Wait until the engine has ended."""
        if self._main_loop is not None:
            await asyncio.wait([self._main_loop])

    async def run(self, root_id: TaskId, *, owner: Owner = EVERYONE) -> None:
        """Run a flow until none of its tasks can run, or the engine is stopped."""
        await self._store.run_flow(root_id, owner=owner)
        await self.follow(root_id)

    async def follow(self, root_id: TaskId) -> None:
        """Help to run a flow that was started, until it ends or the engine is stopped.

        Raise the error that ended the engine, if any.
        """
        attributes = {"gen_ai.operation.name": "invoke_workflow", "weft.flow.id": root_id}
        with span("invoke_workflow", "internal", lambda: attributes):
            await (await self.join(root_id)).wait()
        if self._failure is not None and root_id in self._flows:
            raise self._failure

    async def join(self, root_id: TaskId) -> asyncio.Event:
        """Help to run a flow that was started, without waiting; the event is set when the flow has ended."""
        if self._failure is not None:
            raise self._failure
        if not self.is_running:
            raise RuntimeError("the engine is not running")
        flow = self._flows.setdefault(root_id, _FlowRun(asyncio.Event(), current_context()))
        self._wake.set()
        return flow.ended

    async def serve(self) -> None:
        """Help to run every flow that was started, now and later, until the engine is stopped."""
        while not self._is_stopping and self._main_loop is not None:
            with StoreTolerance("flows to be run"):
                for root_id in await self._store.running_flows(owner=EVERYONE):
                    if root_id not in self._flows and self.is_running:
                        await self.join(root_id)
            await asyncio.wait([self._main_loop], timeout=self._limits.poll_seconds)
        await self.ended()
        if self._failure is not None:
            raise self._failure

    def cancelled(self, task_ids: Collection[TaskId]) -> None:
        """Cancel the attempts at these tasks that run here; the store has already cancelled the tasks."""
        self._cancel_attempts([claim for claim in self._running if claim.task_id in task_ids])

    async def stop(self, *, grace_seconds: float | None = None) -> None:
        """Claim no more tasks, let attempts end within the grace time, and release the remaining ones.

        A second call waits for the same end, and can only shorten the grace time. The engine waits for an
        unavailable store as long as for its attempts, and `IDLE_GRACE_SECONDS` if it has no attempts.
        """
        if self._main_loop is None:
            return
        grace = self._limits.grace_seconds if grace_seconds is None else grace_seconds
        loop = asyncio.get_running_loop()
        self._is_stopping = True
        is_empty = not self._running and not self._endings and not self._being_written
        self._limit_store(IDLE_GRACE_SECONDS if is_empty else max(IDLE_GRACE_SECONDS, grace))
        self._wake.set()
        # The remaining grace time is for writing the outcomes.
        loop.call_later(grace * 0.9, self._cancel_all)
        await self.ended()

    def _limit_store(self, seconds: float) -> None:
        """Set the deadline for waiting for the store, unless there is an earlier one."""
        deadline = asyncio.get_running_loop().time() + seconds
        self._store_deadline = min(self._store_deadline or deadline, deadline)
        self._set_store_limit()

    def _set_store_limit(self) -> None:
        """Apply the deadline to a wait for the store, which lasts at least `SETTLE_SECONDS`.

        An earlier limit stays: a call that fails and its retries are one wait.
        """
        limit = self._store_limit
        if limit is None or self._store_deadline is None or limit.expired():
            return
        soonest = asyncio.get_running_loop().time() + SETTLE_SECONDS
        deadline = max(self._store_deadline, soonest)
        earlier = limit.when()
        limit.reschedule(deadline if earlier is None else min(earlier, deadline))

    def _lift_store_limit(self) -> None:
        """Remove the limit: the store has responded, or the engine waits for something else."""
        if self._store_limit is not None and not self._store_limit.expired():
            self._store_limit.reschedule(None)

    async def _work(self) -> None:
        """Write outcomes and claim tasks, in rounds, until the engine is stopped and has no attempts left."""
        try:
            # One timeout for all rounds: only a stopping engine needs it, and a timeout per round costs time.
            async with asyncio.timeout(None) as self._store_limit:
                await self._run_rounds()
        except Exception as error:
            self._is_without_store = self._store_limit is not None and self._store_limit.expired()
            if self._is_without_store:
                log.warning(
                    "the store is unavailable; stopping without it", extra={"action": "stopped_without_store"}
                )
                self._store.stop_waiting()
            else:
                log.error("the engine stopped: %s", error, extra={"action": "engine_failed"})
                self._failure = error
        finally:
            self._store_limit = None
            await self._shut_down()

    async def _run_rounds(self) -> None:
        while not self._is_stopping or self._running or self._endings:
            if self._store_deadline is not None:
                self._set_store_limit()
            self._wake.clear()
            claim_result = await self._advance_or_wait()
            if not claim_result.claimed and not self._endings:
                await self._end_flows()
            if not self._wake.is_set():
                await self._sleep(claim_result)
        if self._store_deadline is not None:
            self._set_store_limit()
        # The last task of a flow may just have ended, and perhaps no other process would end the flow.
        await self._end_flows()

    async def _shut_down(self) -> None:
        """Cancel the attempts, unregister the worker, and wake the callers that wait for flows."""
        self._is_stopping = True
        try:
            self._cancel_all()
            while self._running:  # each ends or is abandoned within its executor's cancellation grace time
                self._wake.clear()
                await self._wake.wait()
            if self._poller is not None:
                self._poller.cancel()
            await self._worker.stop(is_store_away=self._is_without_store)
        finally:
            for flow in self._flows.values():
                flow.ended.set()

    async def _advance_or_wait(self) -> ClaimResult:
        """Advance, or wait for `poll_seconds` if the store is unavailable."""
        with StoreTolerance("store"):
            claim_result = await self._advance()
            if self._store_deadline is not None:
                self._lift_store_limit()
                self._set_store_limit()
            return claim_result
        await asyncio.sleep(self._limits.poll_seconds)
        return ClaimResult()

    async def _advance(self) -> ClaimResult:
        """Write outcomes and claim tasks, in one transaction; start attempts at the claimed tasks."""
        endings, self._endings = self._endings, []
        wanted = ClaimRequest(
            flows=tuple(self._flows) if self._worker.has_lease and not self._is_stopping else (),
            worker=self._worker.id,
            slots=self._slots.free,
            free=self._slots.free_by_executor,
            methods=self._executors.methods | NO_METHOD,
        )
        self._being_written = endings
        try:
            held, claim_result = await self._store.advance(endings, wanted)
        except WeftError:
            self._endings = endings + self._endings  # nothing was written; retry with the next request
            raise
        finally:
            self._being_written = ()
        for ending, outcome in zip(endings, held, strict=True):
            self._handle_outcome(ending, outcome)
        if isinstance(claim_result, WeftError):
            raise claim_result
        # Claims of a stopping engine are released with the worker.
        if claim_result.claimed and not self._is_stopping and self._worker.has_lease:
            for claimed in claim_result.claimed:
                if (
                    claimed.claim.worker == self._worker.id
                ):  # otherwise the response is late, and others may hold the claim
                    self._start_attempt(claimed)
        if claim_result.unknown_methods:
            await self._learn(claim_result.unknown_methods)
        return claim_result

    def _handle_outcome(self, ending: AttemptResult | Suspension, outcome: bool | WeftError) -> None:
        claim = ending.claim
        if isinstance(outcome, WeftError):
            self._endings.append(self._attempts.refused(ending, outcome))
            self._wake.set()
        elif not outcome:
            log.warning(
                "late result of task %s, attempt %s, dropped: this worker no longer holds the claim",
                claim.task_id,
                claim.attempt,
                extra={"action": "finish_lost_claim", "task_id": claim.task_id, "attempt": claim.attempt},
            )

    async def _learn(self, methods: frozenset[str]) -> None:
        """Check once per poll whether executors for unknown methods have become available."""
        new = methods - self._logged_methods
        if not new and not self._may_learn:
            return
        self._may_learn = False
        with StoreTolerance("executors"):
            if await self._executors.learn(methods):
                self._wake.set()
                return
        # Once per method: perhaps no worker has an executor for it.
        self._logged_methods |= new
        for method in sorted(new):
            log.warning(
                "no executor for method '%s'; leaving its tasks to other workers",
                method,
                extra={"action": "left_to_others", "method": method},
            )

    def _start_attempt(self, claimed: Claimed) -> None:
        claim = claimed.claim
        flow = self._flows[claim.task_tree_id]
        context = None if flow.context is None else flow.context.copy()
        report = new_report(self._store, claim)
        attempt = RunningAttempt(claimed, self._attempts, report, self._remove, context=context)
        self._slots.take(attempt.method)
        flow.running += 1
        self._running[claim] = attempt

    def _remove(self, attempt: RunningAttempt, ending: AttemptResult | Suspension | None) -> None:
        """Remove an ended attempt; its outcome, if it has one, is written in the next round."""
        if ending is not None:
            self._endings.append(ending)
        del self._running[attempt.claim]
        self._slots.release(attempt.method)
        self._flows[attempt.claim.task_tree_id].running -= 1
        self._wake.set()

    def _cancel_attempts(self, claims: Collection[Claim]) -> None:
        for claim in claims:
            self._running[claim].cancel_attempt()

    def _cancel_all(self) -> None:
        self._cancel_attempts(tuple(self._running))

    def _end(self, error: Exception) -> None:
        """Stop the engine, because the store is unusable or is no longer the one that was opened.

        If the store only has a newer schema, running attempts may end. Otherwise they are cancelled, because
        their outcomes cannot be written.
        """
        if self._failure is None:
            log.error("%s", error, extra={"action": "store_changed"})
            self._failure = error
        self._is_stopping = True
        if isinstance(error, StoreUnusable):
            self._cancel_all()
            self._limit_store(SETTLE_SECONDS)
        self._wake.set()

    def _known_claims(self) -> set[Claim]:
        """Return the claims of running attempts and of outcomes that are not written yet."""
        return {*self._running, *(ending.claim for ending in (*self._being_written, *self._endings))}

    async def _end_flows(self) -> None:
        """Remove flows that have ended (no task can run) or were stopped with `stop_flow`.

        The store decides: a task with an unwritten outcome is still in progress there.
        """
        with StoreTolerance("end of flows"):
            for root_id, flow in list(self._flows.items()):
                if flow.running == 0 and await self._store.end_flow(root_id):
                    del self._flows[root_id]
                    flow.ended.set()

    async def _sleep(self, claim_result: ClaimResult) -> None:
        """Wait for work: the end of an attempt, a delayed task, or the next poll."""
        if self._store_deadline is not None:
            self._lift_store_limit()  # attempts have their own grace time
        if claim_result.next_ready_at is None:
            await self._wake.wait()
            return
        seconds = (claim_result.next_ready_at - self._clock.now()).total_seconds()
        alarm = asyncio.get_running_loop().call_later(max(seconds, 0.001), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            alarm.cancel()

    async def _poll(self) -> None:
        """Wake the loop periodically: other processes make tasks ready and end flows."""
        while True:
            await asyncio.sleep(self._limits.poll_seconds)
            self._may_learn = True
            self._wake.set()
