"""This process as a worker of a store: its lease, and the recovery of what dead workers left."""

import asyncio
import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from weft.clock import Clock
from weft.engine.identity import is_dead_here, new_worker_id
from weft.engine.limits import EngineLimits
from weft.store.protocol import Claim, TaskStore

DEFAULT_LEASE_SECONDS = 15.0

log = logging.getLogger(__name__)


class Worker:
    """Keeps a lease alive. A new id for every start: what an earlier life held is never mistaken for ours."""

    def __init__(
        self,
        store: TaskStore,
        clock: Clock,
        limits: EngineLimits,
        *,
        running: Collection[Claim],
        is_known: Callable[[Claim], bool],
        on_lost: Callable[[Collection[Claim]], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        self._running = running
        self._is_known = is_known
        self._on_lost = on_lost
        self._unknown: frozenset[Claim] = frozenset()
        self._beat: asyncio.Task[None] | None = None
        self.id = new_worker_id()

    async def start(self) -> None:
        """Register, recover what dead workers left, and begin to beat."""
        await self._store.add_worker(self.id, lease_until=self._lease_until())
        await self._recover()
        self._beat = asyncio.create_task(self._keep_beating(), name="weft-heartbeat")

    async def stop(self) -> None:
        """Leave, and give back what is still held: none of it was lost."""
        if self._beat is not None:
            self._beat.cancel()
            await asyncio.wait([self._beat])
        try:
            await self._store.remove_worker(self.id, now=self._clock.now())
        except Exception as error:
            # The lease will run out by itself.
            log.warning("worker not removed: %s", error, extra={"action": "remove_worker_failed"})

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(self._limits.heartbeat_seconds)
            try:
                await self._check()
            except Exception as error:
                # Whatever it is: without a heartbeat the tasks that run here would be taken from us.
                log.warning("heartbeat: %s", error, extra={"action": "heartbeat_failed"})

    async def _check(self) -> None:
        running = tuple(self._running)  # before the store is asked: what is claimed meanwhile is not missing
        held = await self._store.renew_worker(self.id, lease_until=self._lease_until())
        if held is None:
            log.warning("worker %s was taken for dead", self.id, extra={"action": "worker_lost"})
            self._on_lost([claim for claim in running if claim in self._running])
            self.id = new_worker_id()
            self._unknown = frozenset()
            await self._store.add_worker(self.id, lease_until=self._lease_until())
        else:
            # Cancelled by another process: ours to stop.
            self._on_lost([claim for claim in running if claim not in held and claim in self._running])
            await self._give_back_unknown(held)
        await self._recover()

    async def _give_back_unknown(self, held: Collection[Claim]) -> None:
        """Give back what the store says we hold and nothing here does: nobody else could take it over.

        Only what was so at the last beat, too: a claim may be committed and not have reached the engine yet.
        """
        unknown = frozenset(claim for claim in held if not self._is_known(claim))
        for claim in unknown & self._unknown:
            log.warning(
                "task %s, attempt %s, is held but not worked on; given back",
                claim.task_id,
                claim.attempt,
                extra={"action": "unknown_claim", "task_id": claim.task_id, "attempt": claim.attempt},
            )
            await self._store.give_back(claim, now=self._clock.now())
        self._unknown = unknown

    async def _recover(self) -> None:
        """Give back what dead workers held: of this machine at once, of others when their lease runs out."""
        now = self._clock.now()
        dead = [worker for worker in await self._store.workers() if is_dead_here(worker)]
        await self._store.recover(now=now, dead=dead)

    def _lease_until(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._limits.lease_seconds or DEFAULT_LEASE_SECONDS)
