"""This process as a worker of a store: its identity, its lease, and the recovery of dead workers' tasks."""

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
    """Return a unique worker id: host, machine and PID namespace, process id, random part."""
    return f"{socket.gethostname()}:{_machine_id()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


class Life(Enum):
    """What this machine can tell about the process of a worker."""

    UNKNOWN = "unknown"
    """On another machine or in another container: its lease decides."""
    DEAD = "dead"
    FROZEN = "frozen"
    """Stopped by a signal or a debugger; it may continue."""
    RUNNING = "running"


def life_of(worker: str) -> Life:
    """Inspect the worker's process, if it runs on this machine.

    A zombie counts as dead: it only waits for its parent. A reused process id counts as running.
    """
    *_, machine, process, _ = ["", "", *worker.rsplit(":", 3)]
    if machine != _machine_id() or not process.isdigit():
        return Life.UNKNOWN
    try:
        # The name in parentheses may contain anything; the state follows the last parenthesis.
        state = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return Life.DEAD
    except (OSError, IndexError):
        return Life.UNKNOWN
    if state in (b"Z", b"X", b"x"):
        return Life.DEAD
    return Life.FROZEN if state in (b"T", b"t") else Life.RUNNING


@cache
def _machine_id() -> str:
    """Return an id shared by processes that can see each other: this boot and the PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:  # not Linux: nobody is known to be dead before the lease expires
        return uuid.uuid4().hex[:12]
    return hashlib.sha256(f"{boot} {space}".encode()).hexdigest()[:12]


DEFAULT_LEASE_SECONDS = 15.0

FENCE_FACTOR = 0.75
"""Part of the lease after which a worker that cannot renew it cancels its attempts: they need time to end."""

LOCKED_LEASE_FACTOR = 4.0
"""Factor for leases in stores where renewing waits for other writers: a large submission may lock the file
for half a minute. Dead and frozen processes of the same machine are detected without the lease."""

log = logging.getLogger(__name__)


class Worker:
    """Keeps the lease of this process alive, and recovers tasks of dead workers.

    Each start has a new id, so claims of an earlier start are never mistaken for its own. A worker that
    cannot renew its lease cancels its attempts before another worker can claim them.
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
        """Create a worker.

        `running` holds the claims of running attempts; `known` returns these and the claims of outcomes that
        are not written yet. `on_lost` receives the claims of running attempts that this worker no longer
        holds. `on_end` is called when the store has been replaced or upgraded.
        """
        self._store = store
        self._limits = limits
        self._frozen_limit_seconds = limits.lease_seconds or DEFAULT_LEASE_SECONDS
        """How long a process may be frozen before it counts as dead."""
        self._lease_seconds = self._frozen_limit_seconds * (
            LOCKED_LEASE_FACTOR if store.renews_with_lock else 1.0
        )
        self._running = running
        self._methods = methods
        self._registered_methods: frozenset[str] = frozenset()
        self._known_claims = known
        self._on_lost = on_lost
        self._on_end = on_end
        self._unknown_claims: frozenset[Claim] = frozenset()
        self._claims_to_release: frozenset[Claim] = frozenset()
        self._heartbeats: list[asyncio.Task[None]] = []
        self._lease_timer: asyncio.TimerHandle | None = None
        self._time = time.monotonic
        self._leased_until = 0.0
        self._last_beat: tuple[float, datetime] | None = None
        self._distrusted_until = 0.0
        self._frozen_since: dict[str, float] = {}
        self.id = new_worker_id()

    @property
    def has_lease(self) -> bool:
        """Return whether the lease is valid, so that no other worker can have claimed our tasks."""
        return self._time() < self._leased_until

    async def start(self) -> None:
        """Register, recover tasks of dead workers, and start the heartbeat."""
        self._time = asyncio.get_running_loop().time
        await self._register()
        await self._recover(self._store.clock.now())
        # The clock may have been set back while no engine was running.
        await self._store.restart_delays()
        self._last_beat = asyncio.get_running_loop().time(), self._store.clock.now()
        # Separate tasks: recovery waits for other writers, and the lease must be renewed meanwhile.
        self._heartbeats = [
            asyncio.create_task(self._repeat(self._renew), name="weft-lease"),
            asyncio.create_task(self._repeat(self._recover_and_check), name="weft-recovery"),
        ]

    async def stop(self, *, is_store_away: bool = False) -> None:
        """Unregister and release the claims, which do not count as lost; not if the store is unavailable."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        for beat in self._heartbeats:
            beat.cancel()
        if self._heartbeats:
            await asyncio.wait(self._heartbeats)
        if is_store_away:
            return
        try:
            async with asyncio.timeout(self._limits.leave_seconds):
                await self._store.remove_worker(self.id, now=self._store.clock.now())
        except Exception as error:
            # The lease will expire by itself.
            log.warning("worker not removed: %r", error, extra={"action": "remove_worker_failed"})
            if isinstance(error, TransientError | TimeoutError):
                self._store.stop_waiting()

    async def _repeat(self, beat: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._limits.heartbeat_seconds)
            try:
                await beat()
            except (SchemaTooNew, StoreReplaced) as error:
                self._on_end(error)
            except Exception as error:
                # Any error: without a heartbeat other workers would claim our running tasks.
                log.warning("heartbeat: %s", error, extra={"action": "heartbeat_failed"})

    async def _renew(self) -> None:
        """Renew the lease, and cancel attempts that the store no longer assigns to this worker."""
        running = tuple(self._running)  # copied before the request: a task claimed during it is not lost
        requested_at = asyncio.get_running_loop().time()
        held = await self._store.renew_worker(self.id, lease_seconds=self._lease_seconds)
        if held is None:
            log.warning("worker %s was taken for dead", self.id, extra={"action": "worker_lost"})
            self._leased_until = 0.0
            self._report_lost(running)
            self.id = new_worker_id()
            await self._register()
        else:
            self._renewed(requested_at)
            # Another process has cancelled these tasks, and this worker must stop the attempts.
            self._report_lost([claim for claim in running if claim not in held])
            self._note_unknown(held)

    async def _recover_and_check(self) -> None:
        """Release tasks that nobody works on, here and elsewhere; check the store and the clock."""
        to_release, self._claims_to_release = self._claims_to_release, frozenset()
        for claim in to_release:
            await self._release(claim)
        if self._methods() != self._registered_methods:
            await self._register()
        await self._store.check()
        await self._recover(await self._trusted_time())

    async def _register(self) -> None:
        """Register with the methods known here; a task with a method that no worker knows fails."""
        methods, requested_at = self._methods(), asyncio.get_running_loop().time()
        await self._store.add_worker(self.id, lease_seconds=self._lease_seconds, methods=methods)
        self._registered_methods = methods
        self._renewed(requested_at)

    def _renewed(self, requested_at: float) -> None:
        """Extend the lease, counted from when the request was sent: in the store it ends later."""
        if self._lease_timer is not None:
            self._lease_timer.cancel()
        loop = asyncio.get_running_loop()
        self._leased_until = requested_at + self._lease_seconds * FENCE_FACTOR
        self._lease_timer = loop.call_at(self._leased_until, self._stop_attempts)

    def _stop_attempts(self) -> None:
        if self._running:
            log.warning(
                "the lease could not be renewed; %d attempts are stopped before others take them over",
                len(self._running),
                extra={"action": "lease_not_renewed"},
            )
        self._report_lost(tuple(self._running))

    def _report_lost(self, claims: Collection[Claim]) -> None:
        self._on_lost([claim for claim in claims if claim in self._running])

    def _note_unknown(self, held: Collection[Claim]) -> None:
        """Note claims of this worker that it does not work on; no other worker could claim their tasks.

        A claim counts only if it is unknown at two heartbeats: it may not have reached the engine yet.
        """
        unknown = frozenset(held).difference(self._known_claims())
        self._claims_to_release |= unknown & self._unknown_claims
        self._unknown_claims = unknown

    async def _release(self, claim: Claim) -> None:
        if claim in self._known_claims() or not await self._store.release(claim, now=self._store.clock.now()):
            return
        log.warning(
            "task %s, attempt %s, was held but not worked on; released",
            claim.task_id,
            claim.attempt,
            extra={"action": "unknown_claim", "task_id": claim.task_id, "attempt": claim.attempt},
        )

    async def _trusted_time(self) -> datetime | None:
        """Return the store's time, or None if its clock has jumped recently.

        After a jump forward all leases expire at once, so expired leases are ignored until all workers had
        time to renew theirs. After a jump back, retry delays would last longer, so they are restarted.
        """
        loop_time, now = asyncio.get_running_loop().time(), self._store.clock.now()
        before, self._last_beat = self._last_beat, (loop_time, now)
        jump = 0.0 if before is None else (now - before[1]).total_seconds() - (loop_time - before[0])
        if abs(jump) >= JUMP_SECONDS:
            log.warning("the store's clock jumped by %+.1f s", jump, extra={"action": "clock_jumped"})
            self._distrusted_until = loop_time + self._lease_seconds
            if jump < 0:
                await self._store.restart_delays(lease_seconds=self._lease_seconds)
        return None if loop_time < self._distrusted_until else now

    async def _recover(self, now: datetime | None) -> None:
        """Release tasks of workers that died on this machine, or with a lease that expired before `now`."""
        dead = [worker for worker in await self._store.workers() if self._is_dead(worker)]
        await self._store.recover(dead=dead, expired_at=now)

    def _is_dead(self, worker: str) -> bool:
        """Return whether a process of this machine is gone, or has been frozen for the length of a lease."""
        life = life_of(worker)
        if life is not Life.FROZEN:
            self._frozen_since.pop(worker, None)
            return life is Life.DEAD
        now = asyncio.get_running_loop().time()
        return now - self._frozen_since.setdefault(worker, now) >= self._frozen_limit_seconds
