"""Carrying operations out: read what they need, let them decide, write what they decided.

Consecutive operations that do not concern each other's tasks are read and written together, so that a
hundred small ones cost about as many round trips as one.
"""

from collections.abc import Iterable, Mapping, Sequence

import asyncpg
from msgspec import Struct

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.errors import StoreError, task_exists
from weft.store.postgresql.changes import write_changes
from weft.store.postgresql.connection import LARGE_FLOW, allow_idle, is_of_one_request, reason, refusal
from weft.store.postgresql.rows import (
    Entry,
    EventRow,
    event_row,
    is_stored_form,
    read_flow,
    read_tasks,
    read_with_unfinished_runs,
)
from weft.store.protocol import Owner
from weft.store.sql import load_queries
from weft.tasks.decisions import Decision, ReadSet, Snapshot, WriteSet
from weft.tasks.flow import Flow
from weft.tasks.record import Task

_SQL = load_queries("postgresql")


class _Decided(Struct):
    entry: Entry
    decision: Decision[object]
    events: list[EventRow]

    @property
    def changes(self) -> WriteSet:
        return self.decision.changes


async def apply_operations(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """Give every entry its outcome."""
    first = 0
    while first < len(entries):
        run = _run(entries, first)
        first += await _apply(connection, run)


def _run(entries: Sequence[Entry], first: int) -> list[tuple[Entry, ReadSet]]:
    """The next operations that may be read together: they need different tasks, and nothing but tasks.

    An operation that needs a flow runs alone: any other could change one of the flow's tasks. So does one
    that needs to know of unfinished runs: any other could make one.
    """
    run: list[tuple[Entry, ReadSet]] = []
    needed: set[TaskId] = set()
    for index in range(first, len(entries)):
        needs = entries[index].request.operation.needs()
        is_alone = bool(needs.flows_of or needs.unfinished_runs_of)
        if run and (is_alone or not needed.isdisjoint(needs.tasks)):
            break
        run.append((entries[index], needs))
        if is_alone:
            break
        needed.update(needs.tasks)
    return run


async def _apply(connection: asyncpg.Connection, run: Sequence[tuple[Entry, ReadSet]]) -> int:
    """Apply the operations of a run, and return how many: an earlier one may add what a later one needs."""
    tasks = await read_tasks(
        connection, [(task_id, entry.request.owner) for entry, needs in run for task_id in set(needs.tasks)]
    )
    decided: list[_Decided] = []
    touched: set[TaskId] = set()
    count = 0
    for entry, needs in run:
        if not touched.isdisjoint(needs.tasks):
            break
        count += 1
        found = Snapshot(
            {key: tasks[key] for key in needs.tasks if key in tasks},
            await _flows(connection, needs, entry.request.owner),
            await read_with_unfinished_runs(connection, needs.unfinished_runs_of, entry.request.owner),
        )
        if len(getattr(entry.request.operation, "flow", ())) > LARGE_FLOW:
            await allow_idle(connection)
        own = _decide(entry, found)
        if own is not None:
            decided.append(own)
            touched.update(_touched(own.changes))
    await _write_apart_if_needed(connection, decided)
    return count


async def _flows(connection: asyncpg.Connection, needs: ReadSet, owner: Owner) -> Mapping[TaskId, Flow]:
    flows: dict[TaskId, Flow] = {}
    for task_id in needs.flows_of:
        known = next((flow for flow in flows.values() if task_id in flow), None)
        flow = known or await _read_flow(connection, task_id, owner)
        if task_id in flow:
            flows[task_id] = flow
    return flows


async def _read_flow(connection: asyncpg.Connection, task_id: TaskId, owner: Owner) -> Flow:
    if is_stored_form(task_id) and await connection.fetchval(_SQL["is_large_flow"], task_id, LARGE_FLOW):
        await allow_idle(connection)
    return await read_flow(connection, task_id, owner)


def _decide(entry: Entry, found: Snapshot) -> _Decided | None:
    try:
        decision = entry.request.operation.decide(found)
        return _Decided(entry, decision, [event_row(event) for event in decision.changes.events])
    except Exception as error:
        entry.outcome = refusal(error)  # nothing is read or written here: whatever it is, it is its own
        return None


def _touched(changes: WriteSet) -> Iterable[TaskId]:
    yield from (task.id for task in changes.added)
    yield from (task.id for task in changes.updated)
    yield from changes.deleted
    yield from changes.recounted


async def _write_apart_if_needed(connection: asyncpg.Connection, decided: Sequence[_Decided]) -> None:
    """Write the decisions together; if that fails, one by one, so that only the guilty one is refused."""
    error = await _try_to_write(connection, decided) if decided else None
    if error is None:
        for own in decided:
            own.entry.outcome = own.decision.value
            own.entry.events = own.events
    elif len(decided) > 1:
        for own in decided:
            await _write_apart_if_needed(connection, [own])
    else:
        decided[0].entry.outcome = await _explained(connection, error, decided[0].changes.added)


async def _try_to_write(connection: asyncpg.Connection, decided: Sequence[_Decided]) -> Exception | None:
    """Write all of the decisions or, when a value of theirs is refused, none; then the error is returned."""
    await connection.execute("SAVEPOINT operations")
    try:
        await write_changes(connection, [own.changes for own in decided])
    except Exception as error:
        if not is_of_one_request(error):
            raise
        await connection.execute("ROLLBACK TO operations; RELEASE operations")
        return error
    await connection.execute("RELEASE operations")
    return None


async def _explained(connection: asyncpg.Connection, error: Exception, added: Sequence[Task]) -> WeftError:
    """Our error for a refused write."""
    if isinstance(error, WeftError):
        return error
    if isinstance(error, asyncpg.UniqueViolationError):
        ids = [task.id for task in added]
        taken = await connection.fetch(_SQL["taken_ids"], ids)
        if taken:
            return task_exists(added, {str(row["id"]): row["user_id"] for row in taken})
    return StoreError(f"the store refuses it: {reason(error)}")
