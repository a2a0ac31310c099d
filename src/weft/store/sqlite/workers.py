"""Workers and their leases. Recovery does one thing: it gives tasks back; the next claim decides."""

from weft.ids import TaskId
from weft.store.attempts import claim_facts
from weft.store.protocol import Claim
from weft.store.requests import AddWorker, Recover, RemoveWorker, RenewWorker
from weft.store.sqlite.rows import micros
from weft.store.sqlite.writing import SQL, Writing
from weft.tasks.events import EventType


def add_worker(writing: Writing, request: AddWorker) -> None:
    """Make a worker known."""
    writing.execute(SQL["add_worker"], (request.worker, micros(request.lease_until)))


def renew_worker(writing: Writing, request: RenewWorker) -> frozenset[TaskId] | None:
    """Prolong a worker's lease; the tasks it holds, or None when it was taken for dead."""
    if writing.execute(SQL["renew_worker"], (request.worker, micros(request.lease_until))).rowcount != 1:
        return None
    return frozenset(row[0] for row in writing.execute(SQL["tasks_of_worker"], (request.worker,)))


def remove_worker(writing: Writing, request: RemoveWorker) -> int:
    """Forget a worker and give back what it held."""
    return _give_back_all(writing, request.worker, micros(request.now))


def recover(writing: Writing, request: Recover) -> int:
    """Give back what dead workers held."""
    now = micros(request.now)
    dead = [row[0] for row in writing.execute(SQL["dead_workers"], (now,))]
    return sum(_give_back_all(writing, worker, now) for worker in dead)


def _give_back_all(writing: Writing, worker: str, now: int) -> int:
    held = writing.execute(SQL["tasks_of_worker"], (worker,)).fetchall()
    for task_id, tree, user_id, attempt in held:
        claim = Claim(task_id, attempt, worker, tree, user_id)
        writing.tell(claim, EventType.TASK_GIVEN_BACK, now, claim_facts(claim))
    writing.execute(SQL["give_back_all"], (worker, now))
    writing.execute(SQL["remove_worker"], (worker,))
    return len(held)
