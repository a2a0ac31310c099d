"""Attempts, suspensions, workers and leases in PostgreSQL: every write is fenced by its claim.

Requests about different tasks cannot influence each other: the end of a task only makes its dependents ready,
and none of these requests depends on that. So the order in which they are applied only matters for the event
log, which the transaction writes in the order of the requests.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import asyncpg

from weft.clock import Clock
from weft.config.settings import shown_location
from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.columns import CLOCK_PUT_BACK, claim_facts, ending, json_text, refusal, suspended_dependencies
from weft.store.postgresql.changes import add_dependents
from weft.store.postgresql.connection import (
    CLOSE_TIMEOUT_SECONDS,
    LOST,
    Timeouts,
    begin_call,
    connect_writer,
    translated_errors,
)
from weft.store.postgresql.rows import (
    Entry,
    EventRow,
    attempt_event_row,
    is_storable,
    is_stored_form,
    may_exist,
    read_tasks,
)
from weft.store.postgresql.steps import end_open_steps
from weft.store.protocol import AttemptResult, Claim, Suspension
from weft.store.requests import AddWorker, Recover, Release, RemoveWorker, Report, RestartDelays, Start
from weft.store.sql import load_queries
from weft.tasks.events import EventType
from weft.tasks.record import Status
from weft.tasks.states import fraction

_SQL = load_queries("postgresql")

MAX_SET_CHARACTERS = 64 * 1024 * 1024
"""Text above which another statement is begun: PostgreSQL rejects a gigabyte, and it takes memory."""

Row = tuple[Any, ...]
Write = tuple[Row, list[EventRow]]
"""The parameters of a statement, and the events to append."""

Prepared = tuple[Entry, Row, list[EventRow]]
"""An entry, with the parameters of its statement and its events."""


async def write_fenced(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Set the outcome of every entry. Each task may occur only once."""
    by_statement: dict[str, list[Entry]] = {}
    for entry in entries:
        by_statement.setdefault(_statement(entry.request), []).append(entry)
    for name, same in by_statement.items():
        parents = await _write(connection, _SQL[name], _prepare(same, _WRITES[name]))
        if parents:
            await _end_open_steps(
                connection, [entry for entry in same if entry.request.claim.task_id in parents]
            )
    await _release_dependents(connection, by_statement.get("finish_tasks", ()))


def _statement(request: Report | AttemptResult | Release) -> str:
    if isinstance(request, AttemptResult):
        return "finish_tasks" if request.retry_after is None else "retry_tasks"
    return "report_progress" if isinstance(request, Report) else "release_task"


def _report(request: Report, _now: datetime) -> Write:
    claim, progress = request.claim, fraction(request.progress)
    event = attempt_event_row(claim, EventType.TASK_PROGRESSED, request.now, {"progress": progress})
    return (*_claim_values(claim), request.now, progress), [event]


def _finish(request: AttemptResult, _now: datetime) -> Write:
    columns, events = _ending(request, None)
    return (*_claim_values(request.claim), request.outcome.at, *columns), events


def _retry(request: AttemptResult, now: datetime) -> Write:
    retry_at = now + (request.retry_after or timedelta())
    columns, events = _ending(request, retry_at)
    return (*_claim_values(request.claim), now, retry_at, columns[2]), events


def _ending(request: AttemptResult, retry_at: datetime | None) -> Write:
    columns, events = ending(request, retry_at)
    at = request.outcome.at
    return columns, [attempt_event_row(request.claim, kind, at, facts) for kind, facts in events]


def _release_task(request: Release, _now: datetime) -> Write:
    claim = request.claim
    event = attempt_event_row(claim, EventType.TASK_RELEASED, request.now, claim_facts(claim))
    return (*_claim_values(claim), request.now), [event]


_WRITES: dict[str, Callable[[Any, datetime], Write]] = {
    "report_progress": _report,
    "finish_tasks": _finish,
    "retry_tasks": _retry,
    "release_task": _release_task,
}


def _claim_values(claim: Claim) -> Row:
    return claim.task_id, claim.attempt, claim.worker, claim.user_id


def _prepare(entries: Iterable[Entry], prepare: Callable[[Any, datetime], Write]) -> Iterator[Prepared]:
    """Yield the entries with their parameters and events; an entry that cannot be written gets its error."""
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
    """Return whether PostgreSQL could store such a claim."""
    return is_stored_form(claim.task_id) and is_storable(claim.worker) and is_storable(claim.user_id)


async def _write(
    connection: asyncpg.Connection, statement: str, prepared: Iterable[Prepared]
) -> frozenset[TaskId]:
    """Write the entries that still hold their claims; the statement returns the ids of these tasks.

    Return the tasks that have ended and have children, which may be open steps.
    """
    parents: set[TaskId] = set()
    for portion in _split_by_size(prepared):
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
    """End the open steps of tasks that have ended; their events come first in the log."""
    ended = {entry.request.claim.task_id: entry.request.outcome.at for entry in entries}
    events = await end_open_steps(connection, ended)
    for entry in entries:
        entry.events[:0] = events.get(entry.request.claim.task_id, ())


def _split_by_size(prepared: Iterable[Prepared]) -> Iterator[list[Prepared]]:
    portion: list[Prepared] = []
    characters = 0
    for item in prepared:
        portion.append(item)
        characters += sum(len(value) for value in item[1] if isinstance(value, str))
        if characters > MAX_SET_CHARACTERS:
            yield portion
            portion, characters = [], 0
    if portion:
        yield portion


async def _release_dependents(connection: asyncpg.Connection, ended: Sequence[Entry]) -> None:
    """Release the dependents of tasks that ended."""
    rows = [
        (entry.request.claim.task_id, entry.request.outcome.verb == Status.COMPLETED)
        for entry in ended
        if entry.outcome is True
    ]
    if rows:
        await connection.execute(_SQL["release_dependents"], *zip(*rows, strict=True))


async def apply_attempts(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Set the outcome of every entry."""
    for wave in _waves(entries):
        await _start(connection, [entry for entry in wave if isinstance(entry.request, Start)])
        await write_fenced(connection, [entry for entry in wave if not isinstance(entry.request, Start)])


def _waves(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Split the entries into sets in which no task occurs twice; entries of one task keep their order.

    A statement sees every row as it was before it: of two starts of a task in one set, both would
    succeed.
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
        entry.outcome = claim
        entry.events.append(attempt_event_row(claim, EventType.TASK_STARTED, request.now, claim_facts(claim)))
    await _refuse(connection, refused)


def _start_row(request: Start) -> tuple[Any, ...]:
    owner = request.owner
    return request.task_id, request.worker, request.now, owner.is_everyone, owner.user_id


async def _refuse(connection: asyncpg.Connection, entries: Sequence[Entry]) -> None:
    tasks = await read_tasks(connection, [(entry.request.task_id, entry.request.owner) for entry in entries])
    for entry in entries:
        entry.outcome = refusal(entry.request, tasks.get(entry.request.task_id))


async def suspend(connection: asyncpg.Connection, entry: Entry) -> bool:
    """Suspend the task of an attempt. Return whether the claim was held."""
    request: Suspension = entry.request
    claim, at, task_id = request.claim, request.at, request.claim.task_id
    guard = (task_id, claim.attempt, claim.worker, claim.user_id)
    if not may_hold(claim):
        return False
    if not await connection.fetchval(_SQL["suspend_task"], *guard, at, request.wake_at):
        return False
    has_ended = await connection.fetchval(_SQL["has_ended"], list(request.until))
    dependencies = suspended_dependencies(request, has_ended=has_ended)
    await connection.execute(_SQL["delete_dependents_of"], [task_id])
    await connection.execute(_SQL["set_dependencies"], task_id, json_text(dependencies))
    await add_dependents(connection, [(needed.id, task_id, needed.required) for needed in dependencies])
    await connection.execute(_SQL["recount_waiting"], [task_id])
    facts = {**claim_facts(claim), "until": request.until}
    entry.events.append(attempt_event_row(claim, EventType.TASK_SUSPENDED, at, facts))
    return True


async def add_worker(connection: asyncpg.Connection, entry: Entry) -> None:
    request: AddWorker = entry.request
    lease_until = entry.now + timedelta(seconds=request.lease_seconds)
    await connection.execute(_SQL["add_worker"], request.worker, lease_until, request.methods)
    await connection.execute(_SQL["remove_old_writers"])


SHORTEST_SECONDS = 0.5
"""Minimum time limit of a renewal, however short the lease is."""


class Leases:
    """Renews leases on its own connection and without the write lock, so that no writer can delay it."""

    def __init__(self, url: str, timeouts: Timeouts, clock: Clock | None) -> None:
        self._url = url
        self._location = shown_location(url)
        self._timeouts = timeouts
        self._clock = clock
        self._connection: asyncpg.Connection | None = None
        self._connection_lock = asyncio.Lock()  # several engines may share the store

    async def renew(self, worker: str, lease_seconds: float) -> frozenset[Claim] | None:
        """Renew a worker's lease. Return the claims it holds, or None if it was declared dead."""
        lease = timedelta(seconds=lease_seconds)
        now = None if self._clock is None else self._clock.now()
        # Much shorter than the lease, so that there is time for another try.
        seconds = min(max(lease_seconds / 4, SHORTEST_SECONDS), self._timeouts.command_seconds)
        async with self._connected(seconds) as connection:
            if not await connection.fetch(_SQL["renew_worker"], worker, lease, now):
                return None
            held = await connection.fetch(_SQL["tasks_of_worker"], worker)
        return frozenset(map(_claim, held))

    async def facts(self) -> tuple[int, datetime]:
        """Return the schema version and the server's time."""
        async with self._connected(self._timeouts.command_seconds) as connection:
            version = await connection.fetchval(_SQL["schema_version"])
            return int(version), await connection.fetchval(_SQL["server_time"])

    async def close(self) -> None:
        """Close the connection, if it is open."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*LOST):
                await connection.close(timeout=CLOSE_TIMEOUT_SECONDS)

    def terminate(self) -> None:
        """Close the connection at once, aborting what runs on it."""
        if self._connection is not None:
            self._connection.terminate()

    @asynccontextmanager
    async def _connected(self, seconds: float) -> AsyncIterator[asyncpg.Connection]:
        """Yield the connection, or a new one if it was lost; terminate it on failure or after `seconds`."""
        with translated_errors(self._location):
            try:
                async with self._connection_lock, asyncio.timeout(seconds):
                    await begin_call(is_write=False)
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await connect_writer(self._url, self._timeouts)
                    yield self._connection
            except BaseException:
                if self._connection is not None:
                    self._connection.terminate()
                    self._connection = None
                raise


async def remove_worker(connection: asyncpg.Connection, entry: Entry) -> int:
    """Remove a worker that shuts down, and release its tasks. Return how many were released."""
    request: RemoveWorker = entry.request
    return await _release_all(connection, entry, [request.worker], request.now, losses=0)


async def recover(connection: asyncpg.Connection, entry: Entry) -> int:
    """Release the tasks of dead workers as lost attempts. Return how many were released."""
    request: Recover = entry.request
    dead = {row[0] for row in await connection.fetch(_SQL["unknown_workers"])}
    dead.update(row[0] for row in await connection.fetch(_SQL["expired_workers"], request.expired_at))
    dead |= set(request.dead)
    return await _release_all(connection, entry, sorted(dead), entry.now, losses=1) if dead else 0


async def restart_delays(connection: asyncpg.Connection, entry: Entry) -> Sequence[TaskId]:
    """Restart retry delays that began in the future; shorten leases if `lease_seconds` is given."""
    request: RestartDelays = entry.request
    if request.lease_seconds is not None:
        lease_until = entry.now + timedelta(seconds=request.lease_seconds)
        await connection.execute(_SQL["shorten_leases"], lease_until)
    rows = await connection.fetch(_SQL["restart_delays"], entry.now)
    for row in rows:
        facts = {"at": row["ready_at"].isoformat(), "reason": CLOCK_PUT_BACK}
        entry.events.append(attempt_event_row(_claim(row), EventType.TASK_RETRIED, entry.now, facts))
    return [TaskId(str(row["id"])) for row in rows]


async def _release_all(
    connection: asyncpg.Connection, entry: Entry, workers: Sequence[str], now: datetime, *, losses: int
) -> int:
    held = await connection.fetch(_SQL["release_all"], workers, now, losses)
    for row in sorted(held, key=lambda row: row["seq"]):
        claim = _claim(row)
        entry.events.append(attempt_event_row(claim, EventType.TASK_RELEASED, now, claim_facts(claim)))
    await connection.execute(_SQL["remove_workers"], workers)
    return len(held)


def _claim(row: asyncpg.Record) -> Claim:
    task_id, attempt, worker, tree, user_id, *_ = row
    return Claim(TaskId(str(task_id)), attempt, worker, TaskId(str(tree)), user_id)
