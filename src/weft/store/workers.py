"""Workers: their leases, and the recovery of tasks that dead ones held; for the engine."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from weft.ids import TaskId
from weft.store.claims import claim_facts, require_worker_name
from weft.store.models import Claim
from weft.store.unit_of_work import Row, StorePart, Unit, Work, write
from weft.tasks.events import EventType

CLOCK_PUT_BACK = "the clock was put back; the delay starts again"


class Workers(StorePart):
    """Registers workers, renews their leases, and releases what dead ones held."""

    @property
    def renews_with_lock(self) -> bool:
        """Return whether renewing a lease waits for other writers, because all write to one file."""
        raise NotImplementedError

    @write()
    def add_worker(
        self, unit: Unit, worker: str, *, lease_seconds: float, methods: Collection[str] | None = None
    ) -> Work[None]:
        """Register a worker, which holds its claims until its lease expires; or update its methods.

        `methods` are those that the worker knows; None: it may know any method.
        """
        require_worker_name(worker)
        known = None if methods is None else sorted(methods)
        yield "add_worker", (worker, _lease_until(unit, lease_seconds), known)

    @write()
    def renew_worker(self, unit: Unit, worker: str, *, lease_seconds: float) -> Work[frozenset[Claim] | None]:
        """Renew the worker's lease and return the claims it holds, or None if it was declared dead.

        Does not wait for other writers where the store can avoid it, and is not retried on failure:
        the caller knows when its lease expires.
        """
        if not (yield "renew_worker", (worker, _lease_until(unit, lease_seconds))):
            return None
        rows = yield "tasks_of_worker", (worker,)
        return frozenset(claim_of(row, worker) for row in rows)

    @write()
    def remove_worker(self, unit: Unit, worker: str, *, now: datetime) -> Work[int]:
        """Remove a worker that shuts down, and release its tasks. Return how many tasks were released."""
        return (yield from _release_all(unit, worker, now, losses=0))

    async def workers(self) -> Sequence[str]:
        """Return the ids of the registered workers."""
        return await self._read(lambda rows: [row[0] for row in rows], ("list_workers", ()))

    @write()
    def recover(
        self, unit: Unit, *, dead: Collection[str] = (), expired_at: datetime | None = None
    ) -> Work[int]:
        """Release the tasks of dead workers, and return how many tasks were released.

        Dead are the workers in `dead` and those with a lease that expired before `expired_at`. Their
        attempts are lost: `Claimed.losses` counts them until an attempt ends. `expired_at` is a time
        of the store's clock that the caller trusts: a clock that jumps must not expire a lease.
        """
        unknown = yield "unknown_workers", ()
        expired = yield "expired_workers", (expired_at,)
        released = 0
        for worker in sorted({*dead, *(row[0] for row in unknown), *(row[0] for row in expired)}):
            released += yield from _release_all(unit, worker, unit.now, losses=1)
        return released

    @write()
    def restart_delays(self, unit: Unit, *, lease_seconds: float | None = None) -> Work[Sequence[TaskId]]:
        """Restart retry delays that began in the future, because the clock was set back since.

        With `lease_seconds`, shorten every lease to at most that long from now: the lease of a dead
        worker would otherwise last longer by as much as the clock was set back, and live workers
        renew theirs. Return the tasks with a restarted delay.
        """
        if lease_seconds is not None:
            yield "shorten_leases", (_lease_until(unit, lease_seconds),)
        rows = yield "restart_delays", (unit.now,)
        for row in rows:
            facts = {"at": unit.dialect.time_of(row[4]).isoformat(), "reason": CLOCK_PUT_BACK}
            unit.add_event(claim_of(row, ""), EventType.TASK_RETRIED, unit.now, facts)
        return [TaskId(str(row[0])) for row in rows]


def claim_of(row: Row, worker: str) -> Claim:
    """Return the claim of a row that begins with id, attempt, flow and owner of a task."""
    task_id, attempt, tree, user_id = row[:4]
    return Claim(TaskId(str(task_id)), attempt, worker, TaskId(str(tree)), user_id)


def _lease_until(unit: Unit, lease_seconds: float) -> datetime:
    return unit.now + timedelta(seconds=lease_seconds)


def _release_all(unit: Unit, worker: str, now: datetime, *, losses: int) -> Work[int]:
    rows = yield "release_all", (worker, now, losses)
    for row in sorted(rows, key=lambda row: row[4]):
        claim = claim_of(row, worker)
        unit.add_event(claim, EventType.TASK_RELEASED, now, claim_facts(claim))
    yield "remove_worker", (worker,)
    return len(rows)
