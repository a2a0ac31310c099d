"""Claim ready tasks by priority and creation order."""

from collections.abc import Sequence
from typing import Any

from weft.ids import TaskId
from weft.store.claims import claim_facts
from weft.store.models import Claim, Claimed, ClaimRequest, ClaimResult
from weft.store.sqlite.transaction import SQL, Transaction, moment, task_of
from weft.tasks.events import EventType
from weft.tasks.record import FIELD_NAMES, Status, Task, evolve

_TASK_COLUMNS = len(FIELD_NAMES)
_PRIORITY = FIELD_NAMES.index("priority")
_TREE = FIELD_NAMES.index("task_tree_id")
_METHOD, _SEQ = _TASK_COLUMNS + 1, _TASK_COLUMNS + 2
_HISTORY = slice(_TASK_COLUMNS + 3, None)
_CLAIM, _READY, _METHODS = SQL["claim_task"], SQL["ready_tasks"], SQL["ready_methods"]
_RELEASED, _FLOW_STATE = SQL["released_tasks"], SQL["flow_state"]


def claim_ready(transaction: Transaction, wanted: ClaimRequest) -> ClaimResult:
    """Claim as many tasks as there are slots: released ones first, then by priority and age.

    A worker that is not registered was declared dead, and nobody would ever release its new claims. A
    worker with an expired lease may be declared dead at any moment. Neither claims a task.
    """
    now = transaction.now
    seen = {
        flow: transaction.execute(_FLOW_STATE, (flow, wanted.worker, now)).fetchone() for flow in wanted.flows
    }
    flows = [flow for flow, row in seen.items() if row is not None and row[0]]
    others = _OtherWorkers(transaction, wanted)
    free = dict(wanted.free)
    released = _released(transaction, [flow for flow in flows if seen[flow][1]], others)
    rows = _within_limits(released, free, wanted.slots)
    if len(rows) < wanted.slots:
        slots = wanted.slots - len(rows)
        rows += _within_limits(_ready(transaction, flows, free, slots, others), free, slots)
    # All rows are decoded before the first is written: if one cannot be decoded, none may stay claimed.
    tasks = [task_of(row[:_TASK_COLUMNS]) for row in rows]
    transaction.executemany(_CLAIM, [(now, wanted.worker, row[_SEQ]) for row in rows])
    claimed = tuple(_claimed(transaction, wanted, task, row) for task, row in zip(tasks, rows, strict=True))
    next_ready_at = min((seen[flow][2] for flow in flows if seen[flow][2] is not None), default=None)
    return ClaimResult(
        claimed=claimed,
        next_ready_at=None if next_ready_at is None else moment(next_ready_at),
        unknown_methods=frozenset(others.left),
    )


class _OtherWorkers:
    """Decides which tasks to leave to other live workers, because this worker does not know their method."""

    def __init__(self, transaction: Transaction, wanted: ClaimRequest) -> None:
        self._transaction = transaction
        self._wanted = wanted
        self._has_others: dict[str, bool] = {}
        self.left: set[str] = set()

    def should_handle(self, method: str) -> bool:
        """Return whether to leave tasks of this method to other workers; one query per unknown method."""
        known = self._wanted.methods
        if known is None or method in known:
            return False
        if method not in self._has_others:
            values = (self._wanted.worker, self._transaction.now, method)
            self._has_others[method] = bool(
                self._transaction.execute(SQL["has_other_workers"], values).fetchone()[0]
            )
        if self._has_others[method]:
            self.left.add(method)
        return self._has_others[method]


def _released(transaction: Transaction, flows: Sequence[TaskId], others: _OtherWorkers) -> list[Any]:
    """Return the tasks that are in progress without a worker."""
    rows = (row for flow in flows for row in transaction.execute(_RELEASED, (flow,)).fetchall())
    found = [row for row in rows if not others.should_handle(row[_METHOD])]
    return sorted(found, key=_claim_order) if len(flows) > 1 else found


def _ready(
    transaction: Transaction,
    flows: Sequence[TaskId],
    free: dict[str, int],
    slots: int,
    others: _OtherWorkers,
) -> list[Any]:
    """Return the next ready rows, queried separately for each flow and method, since methods have limits."""
    found: list[Any] = []
    queries = 0
    for flow in flows:
        for (method,) in transaction.execute(_METHODS, (flow,)).fetchall():
            limit = min(slots, free.get(method, slots))
            if limit > 0 and not others.should_handle(method):
                found += transaction.execute(_READY, (flow, method, transaction.now, limit)).fetchall()
                queries += 1
    return sorted(found, key=_claim_order) if queries > 1 else found


def _claim_order(row: Any) -> tuple[int, int]:
    return row[_PRIORITY], row[_SEQ]


def _within_limits(rows: list[Any], free: dict[str, int], slots: int) -> list[Any]:
    """Return the first rows with a free slot for their method, over all flows; decrements `free`."""
    if not free:
        return rows[: max(slots, 0)]
    kept: list[Any] = []
    for row in rows:
        if len(kept) >= slots:
            break
        method = row[_METHOD]
        if free.get(method, 1) > 0:
            kept.append(row)
            if method in free:
                free[method] -= 1
    return kept


def _claimed(transaction: Transaction, wanted: ClaimRequest, task: Task, row: tuple[Any, ...]) -> Claimed:
    attempt = row[_TASK_COLUMNS] + 1
    claim = Claim(task.id, attempt, wanted.worker, row[_TREE], task.user_id)
    now = transaction.unit.now
    transaction.unit.add_event(claim, EventType.TASK_STARTED, now, claim_facts(claim))
    started = evolve(task, status=Status.IN_PROGRESS, started_at=now, updated_at=now)
    return Claimed(claim, started, *row[_HISTORY])
