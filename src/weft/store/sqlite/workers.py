"""Workers and their leases. Recovery does one thing: it gives tasks back; the next claim decides."""

import json
from collections.abc import Sequence
from datetime import timedelta

from weft.ids import TaskId
from weft.store.attempts import CLOCK_PUT_BACK, claim_facts
from weft.store.protocol import Claim
from weft.store.requests import AddWorker, Recover, RemoveWorker, RenewWorker, RestartDelays
from weft.store.sqlite.rows import micros, moment
from weft.store.sqlite.writing import SQL, Writing
from weft.tasks.events import EventType


def add_worker(writing: Writing, request: AddWorker) -> None:
    """Make a worker known."""
    methods = None if request.methods is None else json.dumps(request.methods)
    writing.execute(
        SQL["add_worker"], (request.worker, _lease_until(writing, request.lease_seconds), methods)
    )


def renew_worker(writing: Writing, request: RenewWorker) -> frozenset[Claim] | None:
    """Renew a worker's lease; the claims it holds, or None when it was taken for dead."""
    renewed = writing.execute(
        SQL["renew_worker"], (request.worker, _lease_until(writing, request.lease_seconds))
    )
    if renewed.rowcount != 1:
        return None
    return frozenset(_claims(writing, request.worker))


def remove_worker(writing: Writing, request: RemoveWorker) -> int:
    """Forget a worker that leaves, and give back what it held."""
    return _give_back_all(writing, request.worker, micros(request.now), losses=0)


def recover(writing: Writing, request: Recover) -> int:
    """Release what dead workers held: attempts that were lost."""
    now = micros(writing.now)
    expired_at = None if request.expired_at is None else micros(request.expired_at)
    dead = {row[0] for row in writing.execute(SQL["dead_workers"], (expired_at,))} | set(request.dead)
    return sum(_give_back_all(writing, worker, now, losses=1) for worker in sorted(dead))


def restart_delays(writing: Writing, request: RestartDelays) -> Sequence[TaskId]:
    """Begin the delays of retries anew that began in the future, and shorten leases."""
    now = micros(writing.now)
    if request.lease_seconds is not None:
        writing.execute(SQL["shorten_leases"], (_lease_until(writing, request.lease_seconds),))
    rows = writing.execute(SQL["restart_delays"], (now,)).fetchall()
    for task_id, tree, user_id, attempt, ready_at in rows:
        claim = Claim(task_id, attempt, "", tree, user_id)
        facts = {"at": moment(ready_at).isoformat(), "reason": CLOCK_PUT_BACK}
        writing.tell(claim, EventType.TASK_RETRIED, now, facts)
    return [row[0] for row in rows]


def _lease_until(writing: Writing, lease_seconds: float) -> int:
    return micros(writing.now + timedelta(seconds=lease_seconds))


def _give_back_all(writing: Writing, worker: str, now: int, *, losses: int) -> int:
    held = _claims(writing, worker)
    for claim in held:
        writing.tell(claim, EventType.TASK_GIVEN_BACK, now, claim_facts(claim))
    writing.execute(SQL["give_back_all"], (worker, now, losses))
    writing.execute(SQL["remove_worker"], (worker,))
    return len(held)


def _claims(writing: Writing, worker: str) -> list[Claim]:
    """What a worker holds."""
    rows = writing.execute(SQL["tasks_of_worker"], (worker,))
    return [Claim(task_id, attempt, worker, tree, user_id) for task_id, tree, user_id, attempt in rows]
