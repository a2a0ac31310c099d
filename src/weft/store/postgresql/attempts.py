"""Starting, reporting, ending and giving back many attempts with one statement for each kind.

Such requests about different tasks cannot influence each other (that a task ended only makes its dependents
ready, and none of these asks for that), so the order in which they are applied matters only to the log; the
transaction writes that in the order of the requests.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from weft.ids import TaskId
from weft.store.attempts import claim_facts, refusal
from weft.store.postgresql.entry import Entry
from weft.store.postgresql.held import write_held
from weft.store.postgresql.reading import read_tasks
from weft.store.postgresql.rows import attempt_event_row, may_exist
from weft.store.protocol import Claim
from weft.store.queries import load_queries
from weft.store.requests import Start
from weft.tasks.events import EventType

_SQL = load_queries("postgresql")


async def apply_attempts(connection: asyncpg.Connection, entries: Iterable[Entry]) -> None:
    """Give every entry its outcome."""
    for wave in _waves(entries):
        await _start(connection, [entry for entry in wave if isinstance(entry.request, Start)])
        await write_held(connection, [entry for entry in wave if not isinstance(entry.request, Start)])


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
