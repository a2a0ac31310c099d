"""This process as a worker of a store: its identity, its lease, recovery of dead workers' tasks."""

import asyncio
import hashlib
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from enum import Enum
from functools import cache
from pathlib import Path

from weft.clock import JUMP_SECONDS
from weft.engine.limits import EngineLimits
from weft.errors import TransientError
from weft.store.errors import SchemaTooNew, StoreReplaced
from weft.store.protocol import Claim, TaskStore


def new_worker_id() -> str:
    """A name no worker had before: host, place, process, chance."""
    return f"{socket.gethostname()}:{_place()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Life(Enum):
    """What can be seen of a worker's process from here."""

    UNKNOWN = "unknown"
    """It is on another machine or in another container: its lease decides."""
    DEAD = "dead"
    FROZEN = "frozen"
    """Stopped by a signal or a debugger; it may run again."""
    RUNNING = "running"


def life_of(worker: str) -> Life:
    """Look at the worker's process, if it is one of this very machine.

    A zombie is dead: it only waits for its parent. A process id that has been given to another process
    counts as running.
    """
    *_, place, process, _ = ["", "", *worker.rsplit(":", 3)]
    if place != _place() or not process.isdigit():
        return Life.UNKNOWN
    try:
        # The name in parentheses may hold anything; the state comes after the last of them.
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return Life.DEAD
    except (OSError, IndexError):
        return Life.UNKNOWN
    if state in (b"Z", b"X", b"x"):
        return Life.DEAD
    return Life.FROZEN if state in (b"T", b"t") else Life.RUNNING


def is_dead_here(worker: str) -> bool:
    """Whether the worker was a process of this very machine that is gone: nobody need wait for its lease."""
    return life_of(worker) is Life.DEAD


@cache
def _place() -> str:
    """What processes share that can see each other: this boot of this machine, and the space of their ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:  # no Linux: nobody is known to be dead before the lease runs out
        return uuid.uuid4().hex[:12]
    return hashlib.sha256(f"{boot} {space}".encode()).hexdigest()[:12]


DEFAULT_LEASE_SECONDS = 15.0

FENCE_FACTOR = 0.75
"""When a worker that cannot renew its lease stops its attempts, in leases: they need time to end."""

LOCKED_LEASE_FACTOR = 4.0
"""How much longer leases are where renewing waits for other writers: a large submission may hold the one file
for half a minute. Dead and frozen processes of the same machine are seen without the lease."""

log = logging.getLogger(__name__)


class Worker:
    """Keeps a lease alive. A new id for every start: what an earlier life held is never mistaken for ours.

    A worker that cannot renew its lease stops its own attempts before any other may take them over.
    """

    def __init__(
        self,
        store: TaskStore,
        limits: EngineLimits,
        *,
        running: Collection[Claim],
        methods: Callable[[], frozenset[str]],
        known: Callable[[], Collection[Claim]],
        on_lost: Callable[[Collection[Claim]], None],
        on_end: Callable[[Exception], None],
    ) -> None:
        """`on_end` is told when the store is not the one that was opened any more."""
        self._store = store
        self._limits = limits
        self._patience_seconds = limits.lease_seconds or DEFAULT_LEASE_SECONDS
        """How long a process that is frozen is waited for."""
        self._lease_seconds = self._patience_seconds * (
            LOCKED_LEASE_FACTOR if store.renews_with_lock else 1.0
        )
        self._running = running
        self._methods = methods
        self._told_methods: frozenset[str] = frozenset()
        self._known = known
        self._on_lost = on_lost
        self._on_end = on_end
        self._unknown: frozenset[Claim] = frozenset()
        self._forgotten: frozenset[Claim] = frozenset()
        self._beats: list[asyncio.Task[None]] = []
        self._fence: asyncio.TimerHandle | None = None
        self._time = time.monotonic
        self._leased_until = 0.0
        self._beat_at: tuple[float, datetime] | None = None
        self._distrusted_until = 0.0
        self._frozen_since: dict[str, float] = {}
        self.id = new_worker_id()

    @property
    def has_lease(self) -> bool:
        """Whether no other worker may have taken our tasks over yet."""
        return self._time() < self._leased_until

    async def start(self) -> None:
        """Register, recover what dead workers left, and begin to beat."""
        self._time = asyncio.get_running_loop().time
        await self._register()
        await self._recover(self._store.clock.now())
        # The clock may have been put back while no engine ran that could notice.
        await self._store.restart_delays()
        self._beat_at = asyncio.get_running_loop().time(), self._store.clock.now()
        # Apart from each other: recovery waits for other writers, and the lease must be renewed meanwhile.
        self._beats = [
            asyncio.create_task(self._keep_on(self._renew), name="weft-lease"),
            asyncio.create_task(self._keep_on(self._look_after), name="weft-recovery"),
        ]

    async def stop(self, *, is_store_away: bool = False) -> None:
        """Leave, and release what is still held: none of it was lost."""
        if self._fence is not None:
            self._fence.cancel()
        for beat in self._beats:
            beat.cancel()
        if self._beats:
            await asyncio.wait(self._beats)
        if is_store_away:
            return
        try:
            async with asyncio.timeout(self._limits.leave_seconds):
                await self._store.remove_worker(self.id, now=self._store.clock.now())
        except Exception as error:
            # The lease will run out by itself.
            log.warning("worker not removed: %r", error, extra={"action": "remove_worker_failed"})
            if isinstance(error, TransientError | TimeoutError):
                self._store.leave()

    async def _keep_on(self, beat: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._limits.heartbeat_seconds)
            try:
                await beat()
            except (SchemaTooNew, StoreReplaced) as error:
                self._on_end(error)
            except Exception as error:
                # Whatever it is: without a heartbeat the tasks that run here would be taken from us.
                log.warning("heartbeat: %s", error, extra={"action": "heartbeat_failed"})

    async def _renew(self) -> None:
        """Renew the lease, and stop the attempts that the store has taken from us."""
        running = tuple(self._running)  # before the store is asked: what is claimed meanwhile is not missing
        asked_at = asyncio.get_running_loop().time()
        held = await self._store.renew_worker(self.id, lease_seconds=self._lease_seconds)
        if held is None:
            log.warning("worker %s was taken for dead", self.id, extra={"action": "worker_lost"})
            self._leased_until = 0.0
            self._lose(running)
            self.id = new_worker_id()
            await self._register()
        else:
            self._renewed(asked_at)
            # Cancelled by another process: ours to stop.
            self._lose([claim for claim in running if claim not in held])
            self._note_unknown(held)

    async def _look_after(self) -> None:
        """Release what nobody works on, here and elsewhere; see that store and clock are as they were."""
        forgotten, self._forgotten = self._forgotten, frozenset()
        for claim in forgotten:
            await self._release(claim)
        if self._methods() != self._told_methods:
            await self._register()
        await self._store.check()
        await self._recover(await self._trusted_time())

    async def _register(self) -> None:
        """Register, with the methods that are known here: what no worker knows is failed by any of them."""
        methods, asked_at = self._methods(), asyncio.get_running_loop().time()
        await self._store.add_worker(self.id, lease_seconds=self._lease_seconds, methods=methods)
        self._told_methods = methods
        self._renewed(asked_at)

    def _renewed(self, asked_at: float) -> None:
        """Count from when the store was asked: the lease cannot have begun earlier."""
        if self._fence is not None:
            self._fence.cancel()
        loop = asyncio.get_running_loop()
        self._leased_until = asked_at + self._lease_seconds * FENCE_FACTOR
        self._fence = loop.call_at(self._leased_until, self._stop_attempts)

    def _stop_attempts(self) -> None:
        if self._running:
            log.warning(
                "the lease could not be renewed; %d attempts are stopped before others take them over",
                len(self._running),
                extra={"action": "lease_not_renewed"},
            )
        self._lose(tuple(self._running))

    def _lose(self, claims: Collection[Claim]) -> None:
        self._on_lost([claim for claim in claims if claim in self._running])

    def _note_unknown(self, held: Collection[Claim]) -> None:
        """Note what the store says we hold and nothing here does: nobody else could take it over.

        Only what was so at the last beat, too: a claim may be committed and not have reached the engine yet.
        """
        unknown = frozenset(held).difference(self._known())
        self._forgotten |= unknown & self._unknown
        self._unknown = unknown

    async def _release(self, claim: Claim) -> None:
        if claim in self._known() or not await self._store.give_back(claim, now=self._store.clock.now()):
            return
        log.warning(
            "task %s, attempt %s, was held but not worked on; released",
            claim.task_id,
            claim.attempt,
            extra={"action": "unknown_claim", "task_id": claim.task_id, "attempt": claim.attempt},
        )

    async def _trusted_time(self) -> datetime | None:
        """Return the store's time, unless its clock has jumped since the last beat or lately.

        After a jump forward every lease has run out at once, so none counts until all workers had time to
        renew theirs. After one back, delays would last longer by as much: they start again.
        """
        loop_time, now = asyncio.get_running_loop().time(), self._store.clock.now()
        before, self._beat_at = self._beat_at, (loop_time, now)
        jump = 0.0 if before is None else (now - before[1]).total_seconds() - (loop_time - before[0])
        if abs(jump) >= JUMP_SECONDS:
            log.warning("the store's clock jumped by %+.1f s", jump, extra={"action": "clock_jumped"})
            self._distrusted_until = loop_time + self._lease_seconds
            if jump < 0:
                await self._store.restart_delays(lease_seconds=self._lease_seconds)
        return None if loop_time < self._distrusted_until else now

    async def _recover(self, now: datetime | None) -> None:
        """Release what dead workers held: of this machine at once, of others when their lease runs out."""
        dead = [worker for worker in await self._store.workers() if self._is_dead(worker)]
        await self._store.recover(dead=dead, expired_at=now)

    def _is_dead(self, worker: str) -> bool:
        """Whether a process of this machine is gone, or has been frozen for as long as a lease lasts."""
        life = life_of(worker)
        if life is not Life.FROZEN:
            self._frozen_since.pop(worker, None)
            return life is Life.DEAD
        now = asyncio.get_running_loop().time()
        return now - self._frozen_since.setdefault(worker, now) >= self._patience_seconds
