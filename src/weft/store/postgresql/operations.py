"""Perform operations: read what they need, let them decide, write their changes.

Consecutive operations that concern different tasks are read and written together, so that a hundred small
operations cost about as many round trips as one.
"""

from collections.abc import Iterable, Mapping, Sequence

import asyncpg
from msgspec import Struct

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.errors import StoreError, TaskExists
from weft.store.models import Owner
from weft.store.postgresql.connection import LARGE_FLOW, allow_idle, is_of_one_request, reason, refusal
from weft.store.postgresql.rows import SQL, decode, fetch, is_storable, is_stored_form, tasks_of
from weft.store.postgresql.statements import Entry, perform
from weft.store.records import NO_LIMIT, write_changes
from weft.store.unit_of_work import EventRow, event_row
from weft.tasks.decisions import Decision, ReadSet, Snapshot, WriteSet
from weft.tasks.flow import Flow
from weft.tasks.record import Task


class _Decided(Struct):
    entry: Entry
    decision: Decision[object]
    events: list[EventRow]

    @property
    def changes(self) -> WriteSet:
        return self.decision.changes


async def apply_operations(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Set the outcome of every entry."""
    first = 0
    while first < len(entries):
        batch = _next_batch(entries, first)
        first += await _apply(connection, batch)


def _next_batch(entries: Sequence[Entry], first: int) -> list[tuple[Entry, ReadSet]]:
    """Return the next operations that can be read together: they need different single tasks.

    An operation that needs a flow runs alone, because any other could change one of the flow's tasks. So
    does one that needs unfinished runs, because any other could create one.
    """
    batch: list[tuple[Entry, ReadSet]] = []
    needed: set[TaskId] = set()
    for index in range(first, len(entries)):
        needs = entries[index].request.operation.needs()
        is_alone = bool(needs.flows_of or needs.unfinished_runs_of)
        if batch and (is_alone or not needed.isdisjoint(needs.tasks)):
            break
        batch.append((entries[index], needs))
        if is_alone:
            break
        needed.update(needs.tasks)
    return batch


async def _apply(connection: asyncpg.Connection, batch: Sequence[tuple[Entry, ReadSet]]) -> int:
    """Apply operations until one needs a task that an earlier one changed; return how many were applied."""
    tasks = await _read_tasks(connection, batch)
    decided: list[_Decided] = []
    touched: set[TaskId] = set()
    count = 0
    for entry, needs in batch:
        if not touched.isdisjoint(needs.tasks):
            break
        count += 1
        found = Snapshot(
            {key: tasks[key] for key in needs.tasks if key in tasks},
            await _flows(connection, needs, entry.request.owner),
            await _read_unfinished_runs(connection, needs, entry.request.owner),
        )
        if len(getattr(entry.request.operation, "flow", ())) > LARGE_FLOW:
            await allow_idle(connection)
        own = _decide(entry, found)
        if own is not None:
            decided.append(own)
            touched.update(_touched(own.changes))
    await _write_decisions(connection, decided)
    return count


async def _read_tasks(
    connection: asyncpg.Connection, batch: Sequence[tuple[Entry, ReadSet]]
) -> dict[TaskId, Task]:
    """Return the tasks that the operations need, each for its owner."""
    owners = {task_id: entry.request.owner for entry, needs in batch for task_id in needs.tasks}
    wanted = [
        (task_id, owner.is_everyone, owner.user_id)
        for task_id, owner in owners.items()
        if is_stored_form(task_id) and is_storable(owner.user_id)
    ]
    if not wanted:
        return {}
    rows = await connection.fetch(SQL["get_tasks_of_owners"], *zip(*wanted, strict=True))
    return {task.id: task for task in await decode(tasks_of, rows)}


async def _read_unfinished_runs(
    connection: asyncpg.Connection, needs: ReadSet, owner: Owner
) -> frozenset[TaskId]:
    ids = list(needs.unfinished_runs_of)
    rows = await fetch(connection, "unfinished_runs", (ids, owner.is_everyone, owner.user_id)) if ids else ()
    return frozenset(TaskId(str(row[0])) for row in rows)


async def _flows(connection: asyncpg.Connection, needs: ReadSet, owner: Owner) -> Mapping[TaskId, Flow]:
    flows: dict[TaskId, Flow] = {}
    for task_id in needs.flows_of:
        known = next((flow for flow in flows.values() if task_id in flow), None)
        flow = known or await _read_flow(connection, task_id, owner)
        if task_id in flow:
            flows[task_id] = flow
    return flows


async def _read_flow(connection: asyncpg.Connection, task_id: TaskId, owner: Owner) -> Flow:
    large = await fetch(connection, "is_large_flow", (task_id, LARGE_FLOW))
    if large and large[0][0]:
        await allow_idle(connection)
    rows = await fetch(connection, "get_flow", (task_id, owner.is_everyone, owner.user_id, NO_LIMIT))
    return Flow(await decode(tasks_of, rows))


def _decide(entry: Entry, found: Snapshot) -> _Decided | None:
    try:
        decision = entry.request.operation.decide(found)
        return _Decided(entry, decision, [event_row(event) for event in decision.changes.events])
    except Exception as error:
        entry.outcome = refusal(error)  # nothing is read or written here, so no other request is affected
        return None


def _touched(changes: WriteSet) -> Iterable[TaskId]:
    yield from (task.id for task in changes.added)
    yield from (task.id for task in changes.updated)
    yield from changes.deleted
    yield from changes.recounted


async def _write_decisions(connection: asyncpg.Connection, decided: Sequence[_Decided]) -> None:
    """Write the decisions together; if that fails, one by one, so that only the failing ones are rejected."""
    error = await _try_to_write(connection, decided) if decided else None
    if error is None:
        for own in decided:
            own.entry.outcome = own.decision.value
            own.entry.events = own.events
    elif len(decided) > 1:
        for own in decided:
            await _write_decisions(connection, [own])
    else:
        decided[0].entry.outcome = await _explain(connection, error, decided[0].changes.added)


async def _try_to_write(connection: asyncpg.Connection, decided: Sequence[_Decided]) -> Exception | None:
    """Write all decisions, or none; return the error if one of them was rejected."""
    await connection.execute("SAVEPOINT operations")
    try:
        await perform(connection, write_changes(decided[0].entry, [own.changes for own in decided]))
    except Exception as error:
        if not is_of_one_request(error):
            raise
        await connection.execute("ROLLBACK TO operations; RELEASE operations")
        return error
    await connection.execute("RELEASE operations")
    return None


async def _explain(connection: asyncpg.Connection, error: Exception, added: Sequence[Task]) -> WeftError:
    """Return the weft error for a rejected write."""
    if isinstance(error, WeftError):
        return error
    if isinstance(error, asyncpg.UniqueViolationError):
        ids = [task.id for task in added]
        taken = await fetch(connection, "taken_ids", (ids,))
        if taken:
            return TaskExists(added, {str(task_id): user_id for task_id, user_id in taken})
    return StoreError(f"the store rejected the write: {reason(error)}")
