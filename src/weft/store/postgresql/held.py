"""What only the holder of a claim may write: progress, an ending, a retry, the task given back."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.attempts import claim_facts, ending
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.rows import EventRow, attempt_event_row, is_storable, is_stored_form
from weft.store.postgresql.steps import end_open_steps
from weft.store.protocol import Claim, Ending
from weft.store.queries import load_queries
from weft.store.requests import GiveBack, Report
from weft.tasks.events import EventType
from weft.tasks.record import Status
from weft.tasks.states import fraction

_SQL = load_queries("postgresql")

MAX_SET_CHARACTERS = 64 * 1024 * 1024
"""Most text in one statement: PostgreSQL refuses a gigabyte, and both sides hold it in memory at once."""

Row = tuple[Any, ...]
Write = tuple[Row, list[EventRow]]
"""The parameters of a statement, and the events that go with them."""

Prepared = tuple[Entry, Row, list[EventRow]]


async def write_held(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Give every entry its outcome; no task is in two of them."""
    by_statement: dict[str, list[Entry]] = {}
    for entry in entries:
        by_statement.setdefault(_statement(entry.request), []).append(entry)
    for name, same in by_statement.items():
        parents = await _write(connection, _SQL[name], _prepare(same, _WRITES[name]))
        if parents:
            await _end_open_steps(
                connection, [entry for entry in same if entry.request.claim.task_id in parents]
            )
    await _release(connection, by_statement.get("finish_tasks", ()))


def _statement(request: Report | Ending | GiveBack) -> str:
    if isinstance(request, Ending):
        return "finish_tasks" if request.retry_after is None else "retry_tasks"
    return "report_progress" if isinstance(request, Report) else "give_back"


def _report(request: Report, _now: datetime) -> Write:
    claim, progress = request.claim, fraction(request.progress)
    event = attempt_event_row(claim, EventType.TASK_PROGRESSED, request.now, {"progress": progress})
    return (*_guard(claim), request.now, progress), [event]


def _finish(request: Ending, _now: datetime) -> Write:
    columns, events = _ending(request, None)
    return (*_guard(request.claim), request.outcome.at, *columns), events


def _retry(request: Ending, now: datetime) -> Write:
    retry_at = now + (request.retry_after or timedelta())
    columns, events = _ending(request, retry_at)
    return (*_guard(request.claim), now, retry_at, columns[2]), events


def _ending(request: Ending, retry_at: datetime | None) -> Write:
    columns, events = ending(request, retry_at)
    at = request.outcome.at
    return columns, [attempt_event_row(request.claim, kind, at, facts) for kind, facts in events]


def _give_back(request: GiveBack, _now: datetime) -> Write:
    claim = request.claim
    event = attempt_event_row(claim, EventType.TASK_GIVEN_BACK, request.now, claim_facts(claim))
    return (*_guard(claim), request.now), [event]


_WRITES: dict[str, Callable[[Any, datetime], Write]] = {
    "report_progress": _report,
    "finish_tasks": _finish,
    "retry_tasks": _retry,
    "give_back": _give_back,
}


def _guard(claim: Claim) -> Row:
    return claim.task_id, claim.attempt, claim.worker, claim.user_id


def _prepare(entries: Iterable[Entry], prepare: Callable[[Any, datetime], Write]) -> Iterator[Prepared]:
    """The entries with what they write; one that cannot be written gets its error instead."""
    for entry in entries:
        entry.outcome = False
        if may_hold(entry.request.claim):
            try:
                row, events = prepare(entry.request, entry.now)
            except WeftError as error:
                entry.outcome = error
            else:
                yield entry, row, events


def may_hold(claim: Claim) -> bool:
    """Whether PostgreSQL could hold such a claim at all."""
    return is_stored_form(claim.task_id) and is_storable(claim.worker) and is_storable(claim.user_id)


async def _write(
    connection: asyncpg.Connection, statement: str, prepared: Iterable[Prepared]
) -> frozenset[TaskId]:
    """Write what belongs to claims that still hold: the statement returns the ids of their tasks.

    Return those that have ended and have tasks below them, which may be steps.
    """
    parents: set[TaskId] = set()
    for portion in _portions(prepared):
        rows = (row for _, row, _ in portion)
        found = await connection.fetch(statement, *zip(*rows, strict=True))
        held = {str(row[0]) for row in found}
        parents.update(TaskId(str(row[0])) for row in found if row.get("has_children"))
        for entry, row, events in portion:
            if row[0] in held:
                entry.outcome = True
                entry.events.extend(events)
    return frozenset(parents)


async def _end_open_steps(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    """End the open steps of tasks that have ended for good; the log tells of them first."""
    ended = {entry.request.claim.task_id: entry.request.outcome.at for entry in entries}
    events = await end_open_steps(connection, ended)
    for entry in entries:
        entry.events[:0] = events.get(entry.request.claim.task_id, ())


def _portions(prepared: Iterable[Prepared]) -> Iterator[list[Prepared]]:
    portion: list[Prepared] = []
    characters = 0
    for one in prepared:
        portion.append(one)
        characters += sum(len(value) for value in one[1] if isinstance(value, str))
        if characters > MAX_SET_CHARACTERS:
            yield portion
            portion, characters = [], 0
    if portion:
        yield portion


async def _release(connection: asyncpg.Connection, ended: Sequence[Entry]) -> None:
    """Let the dependents of what has ended go on."""
    rows = [
        (entry.request.claim.task_id, entry.request.outcome.verb == Status.COMPLETED)
        for entry in ended
        if entry.outcome is True
    ]
    if rows:
        await connection.execute(_SQL["release_dependents"], *zip(*rows, strict=True))
