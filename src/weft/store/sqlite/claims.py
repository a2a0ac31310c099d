"""Claiming what may start, in the order of priority and creation; and which flows are to be run at all."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from weft.ids import TaskId
from weft.store.columns import claim_facts
from weft.store.protocol import Claim, Claimed, ClaimRequest, ClaimResult
from weft.store.requests import EndFlow, RunFlow
from weft.store.sqlite.rows import micros, moment, task_of
from weft.store.sqlite.unit_of_work import SQL, UnitOfWork
from weft.tasks.events import EventType
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import FIELD_NAMES, Status, Task, evolve

_WIDTH = len(FIELD_NAMES)
_PRIORITY = FIELD_NAMES.index("priority")
_TREE = FIELD_NAMES.index("task_tree_id")
_METHOD, _SEQ = _WIDTH + 1, _WIDTH + 2
_COUNTS = slice(_WIDTH + 3, None)
_CLAIM, _READY, _METHODS = SQL["claim_task"], SQL["ready_tasks"], SQL["ready_methods"]
_GIVEN_BACK, _OUTLOOK = SQL["given_back_tasks"], SQL["outlook"]


def claim_ready(writing: UnitOfWork, wanted: ClaimRequest) -> ClaimResult:
    """Claim as many tasks as there are slots: given-back ones first, then by priority and age.

    A worker that is not known was taken for dead: what it claimed now, nobody would ever release. One whose
    lease has run out may be taken for dead at any moment.
    """
    now = micros(writing.now)
    seen = {flow: writing.execute(_OUTLOOK, (flow, wanted.worker, now)).fetchone() for flow in wanted.flows}
    flows = [flow for flow, row in seen.items() if row is not None and row[0]]
    others = _Others(writing, wanted, now)
    free = dict(wanted.free)
    given_back = _given_back(writing, [flow for flow in flows if seen[flow][1]], others)
    rows = _within_limits(given_back, free, wanted.slots)
    if len(rows) < wanted.slots:
        slots = wanted.slots - len(rows)
        rows += _within_limits(_ready(writing, flows, free, slots, now, others), free, slots)
    # All are read before the first is written: one that cannot be must not leave others claimed by nobody.
    tasks = [task_of(row[:_WIDTH]) for row in rows]
    writing.executemany(_CLAIM, [(now, wanted.worker, row[_SEQ]) for row in rows])
    claimed = tuple(_claimed(writing, wanted, task, row, now) for task, row in zip(tasks, rows, strict=True))
    next_ready_at = min((seen[flow][2] for flow in flows if seen[flow][2] is not None), default=None)
    return ClaimResult(
        claimed=claimed,
        next_ready_at=None if next_ready_at is None else moment(next_ready_at),
        left_to_others=frozenset(others.left),
    )


class _Others:
    """The methods that are left to other workers: unknown here, while one lives that may know them."""

    def __init__(self, writing: UnitOfWork, wanted: ClaimRequest, now: int) -> None:
        self._writing = writing
        self._wanted = wanted
        self._now = now
        self._found: dict[str, bool] = {}
        self.left: set[str] = set()

    def have(self, method: str) -> bool:
        """Return whether the method is left to them; they are asked for once per unknown method."""
        known = self._wanted.methods
        if known is None or method in known:
            return False
        if method not in self._found:
            values = (self._wanted.worker, self._now, method)
            self._found[method] = bool(self._writing.execute(SQL["has_other_workers"], values).fetchone()[0])
        if self._found[method]:
            self.left.add(method)
        return self._found[method]


def _given_back(writing: UnitOfWork, flows: Sequence[TaskId], others: _Others) -> list[Any]:
    """The tasks that nobody works on any more."""
    rows = (row for flow in flows for row in writing.execute(_GIVEN_BACK, (flow,)).fetchall())
    found = [row for row in rows if not others.have(row[_METHOD])]
    return sorted(found, key=_place) if len(flows) > 1 else found


def _ready(
    writing: UnitOfWork, flows: Sequence[TaskId], free: dict[str, int], slots: int, now: int, others: _Others
) -> list[Any]:
    """The next ready rows; each method of each flow is asked for on its own, since methods have limits."""
    found: list[Any] = []
    questions = 0
    for flow in flows:
        for (method,) in writing.execute(_METHODS, (flow,)).fetchall():
            limit = min(slots, free.get(method, slots))
            if limit > 0 and not others.have(method):
                found += writing.execute(_READY, (flow, method, now, limit)).fetchall()
                questions += 1
    return sorted(found, key=_place) if questions > 1 else found


def _place(row: Any) -> tuple[int, int]:
    return row[_PRIORITY], row[_SEQ]


def _within_limits(rows: list[Any], free: dict[str, int], slots: int) -> list[Any]:
    """The first rows whose method still has a slot, over all flows together; `free` is used up with them."""
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


def _claimed(
    writing: UnitOfWork, wanted: ClaimRequest, task: Task, row: tuple[Any, ...], now: int
) -> Claimed:
    attempt = row[_WIDTH] + 1
    claim = Claim(task.id, attempt, wanted.worker, row[_TREE], task.user_id)
    writing.tell(claim, EventType.TASK_STARTED, now, claim_facts(claim))
    return Claimed(claim, started(task, writing.now), *row[_COUNTS])


def started(task: Task, now: datetime) -> Task:
    """The record as the claim leaves it."""
    return evolve(task, status=Status.IN_PROGRESS, started_at=now, updated_at=now)


def run_flow(writing: UnitOfWork, request: RunFlow) -> None:
    """Ask for a flow to be run, or take that back."""
    owner = request.owner
    statement = SQL["run_flow" if request.is_running else "stop_flow"]
    if writing.execute(statement, (request.root_id, owner.is_everyone, owner.user_id)).rowcount != 1:
        raise TaskNotFound(task_id=request.root_id)


def end_flow(writing: UnitOfWork, request: EndFlow) -> bool:
    """Take it back if nothing of the flow can go on by itself; whether the flow is over."""
    writing.execute(SQL["end_flow"], (request.root_id,))
    return not _is_running(writing, request.root_id)


def _is_running(writing: UnitOfWork, root_id: TaskId) -> bool:
    row = writing.execute(SQL["is_running"], (root_id,)).fetchone()
    return row is not None and bool(row[0])
