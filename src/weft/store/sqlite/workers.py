"""Workers and their leases. Recovery does one thing: it gives tasks back; the next claim decides."""

from weft.store.attempts import claim_facts
from weft.store.protocol import Claim
from weft.store.requests import AddWorker, Recover, RemoveWorker, RenewWorker
from weft.store.sqlite.rows import micros
from weft.store.sqlite.writing import SQL, Writing
from weft.tasks.events import EventType


def add_worker(writing: Writing, request: AddWorker) -> None:
    """Make a worker known."""
    writing.execute(SQL["add_worker"], (request.worker, micros(request.lease_until)))


def renew_worker(writing: Writing, request: RenewWorker) -> frozenset[Claim] | None:
    """Prolong a worker's lease; the claims it holds, or None when it was taken for dead."""
    if writing.execute(SQL["renew_worker"], (request.worker, micros(request.lease_until))).rowcount != 1:
        return None
    return frozenset(_claims(writing, request.worker))


def remove_worker(writing: Writing, request: RemoveWorker) -> int:
    """Forget a worker that leaves, and give back what it held."""
    return _give_back_all(writing, request.worker, micros(request.now), losses=0)


def recover(writing: Writing, request: Recover) -> int:
    """Give back what dead workers held: attempts that were lost."""
    now = micros(request.now)
    dead = {row[0] for row in writing.execute(SQL["dead_workers"], (now,))} | set(request.dead)
    return sum(_give_back_all(writing, worker, now, losses=1) for worker in sorted(dead))


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
