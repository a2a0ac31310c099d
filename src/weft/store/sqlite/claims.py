"""Claiming what may start, in the order of priority and creation; and which flows are to be run at all."""

from collections.abc import Mapping
from typing import Any

from weft.store.attempts import claim_facts
from weft.store.protocol import Claim, Claimed, FlowOutlook, Wanted
from weft.store.requests import EndFlow, RunFlow
from weft.store.sqlite.rows import micros, moment, task_of
from weft.store.sqlite.writing import SQL, Writing
from weft.tasks.events import EventType
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import FIELD_NAMES, Status, Task, evolve

_WIDTH = len(FIELD_NAMES)
_PRIORITY = FIELD_NAMES.index("priority")
_CLAIM, _READY = SQL["claim_task"], SQL["ready_tasks"]


def claim_ready(writing: Writing, wanted: Wanted) -> FlowOutlook:
    """Claim as many tasks of the flow as there are slots: given-back ones first, then by priority and age."""
    free = dict(wanted.free)
    rows = _given_back(writing, wanted, free)
    if len(rows) < wanted.slots:
        rows += _ready(writing, wanted, wanted.slots - len(rows), free)
    claimed = tuple(_claimed(writing, wanted, row) for row in rows)
    next_ready_at = writing.execute(SQL["next_ready_at"], (wanted.flow,)).fetchone()[0]
    return FlowOutlook(
        claimed=claimed,
        next_ready_at=None if next_ready_at is None else moment(next_ready_at),
        in_progress=writing.execute(SQL["count_in_progress"], (wanted.flow,)).fetchone()[0],
    )


def _given_back(writing: Writing, wanted: Wanted, free: dict[str, int]) -> list[Any]:
    """The given-back rows to take; their methods have less free then."""
    found: list[Any] = []
    if wanted.slots > 0:
        cursor = writing.execute(SQL["given_back_tasks"], (wanted.flow,))
        for row in cursor:
            method = row[-1]
            if free.get(method, 1) > 0:
                found.append(row)
                free[method] = free.get(method, wanted.slots) - 1
            if len(found) == wanted.slots:
                break
        cursor.close()
    return found


def _ready(writing: Writing, wanted: Wanted, slots: int, free: Mapping[str, int]) -> list[Any]:
    """The next ready rows over all methods; each method is asked for on its own, since each has its limit."""
    now = micros(wanted.now)
    found: list[Any] = []
    methods = [row[0] for row in writing.execute(SQL["ready_methods"], (wanted.flow,))]
    for method in methods:
        limit = min(slots, free.get(method, slots))
        if limit > 0:
            found += writing.execute(_READY, (wanted.flow, method, now, limit)).fetchall()
    if len(methods) > 1:
        found.sort(key=lambda row: (row[_PRIORITY], row[-1]))
    return found[:slots]


def _claimed(writing: Writing, wanted: Wanted, row: tuple[Any, ...]) -> Claimed:
    task, attempt = task_of(row[:_WIDTH]), row[_WIDTH] + 1
    now = micros(wanted.now)
    writing.execute(_CLAIM, (now, wanted.worker, task.id))
    claim = Claim(task.id, attempt, wanted.worker, wanted.flow, task.user_id)
    writing.tell(claim, EventType.TASK_STARTED, now, claim_facts(claim))
    return Claimed(claim, started(task, wanted))


def started(task: Task, wanted: Wanted) -> Task:
    """The record as the claim leaves it."""
    return evolve(task, status=Status.IN_PROGRESS, started_at=wanted.now, updated_at=wanted.now)


def run_flow(writing: Writing, request: RunFlow) -> None:
    """Ask for a flow to be run, or take that back."""
    owner = request.owner
    statement = SQL["run_flow" if request.is_running else "stop_flow"]
    if writing.execute(statement, (request.root_id, owner.is_everyone, owner.user_id)).rowcount != 1:
        raise TaskNotFound(task_id=request.root_id)


def end_flow(writing: Writing, request: EndFlow) -> bool:
    """Take it back if nothing of the flow can go on by itself."""
    return writing.execute(SQL["end_flow"], (request.root_id,)).rowcount == 1
