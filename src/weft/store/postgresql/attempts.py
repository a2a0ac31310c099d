"""Starting, reporting and finishing many attempts with one statement for each kind.

Requests about different tasks cannot influence each other, so the order in which they are applied matters
only to the log; the transaction writes that in the order of the requests.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import asyncpg

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.attempts import ending, refusal, within_bounds
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.reading import read_tasks
from weft.store.postgresql.rows import EventRow, attempt_event_row, is_stored_form, may_exist
from weft.store.protocol import Claim
from weft.store.queries import load_queries
from weft.store.requests import Finish, Report, Start
from weft.tasks.events import EventType

_SQL = load_queries("postgresql")

MAX_SET_CHARACTERS = 64 * 1024 * 1024
"""Most text in one statement: PostgreSQL refuses a gigabyte, and both sides hold it in memory at once."""

Row = tuple[Any, ...]
Prepared = tuple[Entry, Row, EventRow]


async def apply_attempts(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Give every entry its outcome."""
    for wave in _waves(entries):
        by_kind: dict[type[Any], list[Entry]] = {}
        for entry in wave:
            by_kind.setdefault(type(entry.request), []).append(entry)
        await _start(connection, by_kind.get(Start, []))
        await _write_held(connection, _SQL["report_progress"], _prepare(by_kind.get(Report, []), _report))
        await _write_held(connection, _SQL["finish_tasks"], _prepare(by_kind.get(Finish, []), _finish))


def _waves(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries in sets without a task twice; those of one task in their order, one in each set.

    A statement sees every row as it was before it: of two starters of a task in one set, both would win.
    """
    waves: list[list[Entry]] = []
    seen: dict[TaskId, int] = {}
    for entry in entries:
        request = entry.request
        task_id = request.task_id if isinstance(request, Start) else request.claim.task_id
        number = seen.get(task_id, 0)
        seen[task_id] = number + 1
        if number == len(waves):
            waves.append([])
        waves[number].append(entry)
    return waves


async def _start(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    requests = [entry.request for entry in entries]
    rows = [_start_row(request) for request in requests if may_exist(request.task_id, request.owner)]
    started = await connection.fetch(_SQL["start_tasks"], *zip(*rows, strict=True)) if rows else []
    by_id = {str(row[0]): row for row in started}
    refused: list[Entry] = []
    for entry in entries:
        request, row = entry.request, by_id.get(entry.request.task_id)
        if row is None:
            refused.append(entry)
            continue
        claim = Claim(request.task_id, row[1], request.worker, TaskId(str(row[2])), row[3])
        facts = {"attempt": claim.attempt, "worker": claim.worker}
        entry.outcome = claim
        entry.events.append(attempt_event_row(claim, EventType.TASK_STARTED, request.now, facts))
    await _refuse(connection, refused)


def _start_row(request: Start) -> Row:
    owner = request.owner
    return request.task_id, request.worker, request.now, request.lease_until, owner.is_everyone, owner.user_id


async def _refuse(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    tasks = await read_tasks(connection, [(entry.request.task_id, entry.request.owner) for entry in entries])
    for entry in entries:
        entry.outcome = refusal(entry.request, tasks.get(entry.request.task_id))


def _report(request: Report) -> tuple[Row, EventRow]:
    claim, progress = request.claim, within_bounds(request.progress)
    row = (claim.task_id, claim.attempt, claim.worker, claim.user_id, progress, request.now)
    facts = {"progress": progress}
    return row, attempt_event_row(claim, EventType.TASK_PROGRESSED, request.now, facts)


def _finish(request: Finish) -> tuple[Row, EventRow]:
    claim, outcome = request.claim, request.outcome
    columns, facts = ending(outcome)
    row = (claim.task_id, claim.attempt, claim.worker, claim.user_id, *columns, outcome.at)
    facts = {"attempt": claim.attempt, **facts}
    return row, attempt_event_row(claim, outcome.event_type, outcome.at, facts)


def _prepare(entries: Iterable[Entry], prepare: Callable[[Any], tuple[Row, EventRow]]) -> Iterator[Prepared]:
    """The entries with what they write; one that cannot be written gets its error instead."""
    for entry in entries:
        entry.outcome = False
        if is_stored_form(entry.request.claim.task_id):
            try:
                row, event = prepare(entry.request)
            except WeftError as error:
                entry.outcome = error
            else:
                yield entry, row, event


async def _write_held(connection: asyncpg.Connection, statement: str, prepared: Iterable[Prepared]) -> None:
    """Write what belongs to claims that still hold: the statement gives back the ids of their tasks."""
    for portion in _portions(prepared):
        rows = (row for _, row, _ in portion)
        held = {str(row[0]) for row in await connection.fetch(statement, *zip(*rows, strict=True))}
        for entry, row, event in portion:
            if row[0] in held:
                entry.outcome = True
                entry.events.append(event)


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
