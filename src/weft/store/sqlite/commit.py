"""Write transactions: a group of requests, applied in order, each with its own outcome; and claims."""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any

from weft.clock import Clock
from weft.errors import WeftError
from weft.fault_points import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, hit
from weft.ids import TaskId
from weft.store.claims import claim_facts
from weft.store.columns import json_text
from weft.store.errors import TaskExists, refusal_of
from weft.store.models import Claim, Claimed, ClaimRequest, ClaimResult, Owner
from weft.store.records import NO_LIMIT, write_changes
from weft.store.sqlite.connection import translated
from weft.store.sqlite.transaction import SQL, Transaction, moment, task_of
from weft.store.steps import write_steps
from weft.store.unit_of_work import Operate, Request, Write, WriteSteps, event_row
from weft.tasks.decisions import ReadSet, Snapshot, WriteSet
from weft.tasks.events import EventType
from weft.tasks.flow import Flow
from weft.tasks.record import FIELD_NAMES, Status, Task, evolve

Outcomes = Sequence[Any] | Exception
"""The value or error of each request, or the error because of which nothing was committed."""

_REQUEST_ERRORS = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""Errors caused by one request: a violated constraint, or a value that SQLite cannot store."""


def try_to_commit(
    connection: sqlite3.Connection, requests: Sequence[Request], clock: Clock, path: Path
) -> Outcomes:
    """Commit the requests together; `path` is the location of the database, for messages."""
    try:
        return _commit_group(connection, requests, clock)
    except sqlite3.Error as error:
        translation = translated(error, path)
        translation.__cause__ = error
        return translation
    except Exception as error:
        return error


def _commit_group(connection: sqlite3.Connection, requests: Sequence[Request], clock: Clock) -> list[Any]:
    try:
        return _commit(connection, requests, clock, _apply_together)
    except Exception as error:
        if not _is_of_one_request(error):
            raise
    # Start again with savepoints: the failed request may be half written, and must not fail the others.
    return _commit(connection, requests, clock, _apply_apart)


def _commit(
    connection: sqlite3.Connection,
    requests: Sequence[Request],
    clock: Clock,
    apply: Callable[[sqlite3.Connection, Sequence[Request], datetime], list[Any]],
) -> list[Any]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        hit(STORE_BEGAN)
        outcomes = apply(connection, requests, clock.now())
        hit(STORE_APPLIED)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    hit(STORE_COMMITTED)
    return outcomes


def _apply_together(connection: sqlite3.Connection, requests: Sequence[Request], now: datetime) -> list[Any]:
    transaction = Transaction(connection, now)
    outcomes: list[Any] = []
    for run, same in groupby(requests, _run_of):
        together = list(same)
        if run is None:
            outcomes += [_apply(transaction, request) for request in together]
        else:
            outcomes += _apply_steps(transaction, together)
    transaction.release_dependents()
    transaction.write_events()
    return outcomes


def _run_of(request: Any) -> Any:
    """Return the run of a request to write steps; None for all others."""
    return request.run if type(request) is WriteSteps else None


def _apply_apart(connection: sqlite3.Connection, requests: Sequence[Request], now: datetime) -> list[Any]:
    """Apply each request in its own savepoint: slower, but a failed request leaves no trace."""
    outcomes: list[Any] = []
    for request in requests:
        connection.execute("SAVEPOINT request")
        try:
            outcomes += _apply_together(connection, [request], now)
        except Exception as error:
            if not _is_of_one_request(error):
                raise
            connection.execute("ROLLBACK TO request")
            outcomes.append(_refusal(error))
        connection.execute("RELEASE request")
    return outcomes


def _apply_steps(transaction: Transaction, requests: Sequence[Any]) -> Sequence[Any]:
    try:
        return transaction.perform(write_steps(transaction.unit, requests))
    except WeftError as error:
        return [error] * len(requests)


def _apply(transaction: Transaction, request: Any) -> Any:
    """Return the value of a request, or its own error if it wrote nothing."""
    kind = type(request)
    try:
        if kind is Write:
            if request.task_id is None:
                transaction.release_dependents()
            return transaction.perform(request.begin(transaction.unit))
        transaction.release_dependents()
        return _operate(transaction, request) if kind is Operate else _claim_ready(transaction, request)
    except WeftError as error:
        return error
    except Exception as error:
        # Only an operation has its own savepoint, because its input comes from users.
        if kind is not Operate or not _is_of_one_request(error):
            raise
        return _refusal(error)


def _is_of_one_request(error: Exception) -> bool:
    """Return whether the error concerns only its request, and not the file or the connection."""
    return not isinstance(error, sqlite3.Error) or isinstance(error, _REQUEST_ERRORS)


def _refusal(error: Exception) -> WeftError:
    return refusal_of(error, reason=str(error), is_of_driver=isinstance(error, sqlite3.Error))


def _operate(transaction: Transaction, request: Operate) -> Any:
    """Perform an operation in a savepoint, so that a failed one does not affect other requests."""
    decision = request.operation.decide(_read_snapshot(transaction, request.operation.needs(), request.owner))
    events = list(map(event_row, decision.changes.events))
    transaction.execute("SAVEPOINT operation")
    try:
        _write(transaction, decision.changes)
    except BaseException:
        transaction.execute("ROLLBACK TO operation")
        raise
    finally:
        transaction.execute("RELEASE operation")
    transaction.unit.events.extend(events)
    return decision.value


def _read_snapshot(transaction: Transaction, needs: ReadSet, owner: Owner) -> Snapshot:
    restriction = owner.is_everyone, owner.user_id

    def rows_of(name: str, ids: Sequence[TaskId]) -> list[Any]:
        return transaction.execute(SQL[name], (json_text(ids), *restriction)).fetchall() if ids else []

    flows: dict[TaskId, Flow] = {}
    for task_id in needs.flows_of:
        known = next((flow for flow in flows.values() if task_id in flow), None)
        flow = known or Flow(
            map(task_of, transaction.execute(SQL["get_flow"], (task_id, *restriction, NO_LIMIT)))
        )
        if task_id in flow:
            flows[task_id] = flow
    return Snapshot(
        {task.id: task for task in map(task_of, rows_of("get_tasks", needs.tasks))},
        flows,
        frozenset(row[0] for row in rows_of("unfinished_runs", needs.unfinished_runs_of)),
    )


def _write(transaction: Transaction, changes: WriteSet) -> None:
    try:
        transaction.perform(write_changes(transaction.unit, [changes]))
    except sqlite3.IntegrityError as error:
        ids = [task.id for task in changes.added]
        taken = dict(transaction.execute(SQL["taken_ids"], (json_text(ids),)).fetchall())
        if not taken:
            raise
        raise TaskExists(changes.added, taken) from error


_TASK_COLUMNS = len(FIELD_NAMES)
_PRIORITY = FIELD_NAMES.index("priority")
_TREE = FIELD_NAMES.index("task_tree_id")
_METHOD, _SEQ = _TASK_COLUMNS + 1, _TASK_COLUMNS + 2
_HISTORY = slice(_TASK_COLUMNS + 3, None)
_CLAIM, _READY, _METHODS = SQL["claim_task"], SQL["ready_tasks"], SQL["ready_methods"]
_RELEASED, _FLOW_STATE = SQL["released_tasks"], SQL["flow_state"]


def _claim_ready(transaction: Transaction, wanted: ClaimRequest) -> ClaimResult:
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
