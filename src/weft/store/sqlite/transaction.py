"""One write transaction: a group of requests, applied in order, each with its own outcome."""

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from weft.collector import paused_collector
from weft.errors import WeftError
from weft.faults import STORE_APPLIED, STORE_BEGAN, STORE_COMMITTED, reach
from weft.ids import TaskId
from weft.store.attempts import ending, refusal, within_bounds
from weft.store.columns import json_text
from weft.store.errors import StoreError, TaskExists
from weft.store.protocol import Claim, Owner
from weft.store.queries import load_queries
from weft.store.requests import Finish, Operate, Report, Request, Start
from weft.store.sqlite.rows import event_row, micros, task_of, task_row
from weft.tasks.changes import Changes, Found, Needs
from weft.tasks.events import EventType
from weft.tasks.flow import Flow
from weft.tasks.record import Task

_SQL = load_queries("sqlite")
_START, _REPORT, _FINISH = _SQL["start_task"], _SQL["report_progress"], _SQL["finish_task"]


def owner_parameters(owner: Owner) -> dict[str, Any]:
    """The two parameters that every query on behalf of an owner has."""
    return {"everyone": owner.is_everyone, "user_id": owner.user_id}


@paused_collector()
def commit_group(connection: sqlite3.Connection, requests: Sequence[Request]) -> list[Any]:
    """The value or error of each request, all committed together; raises when nothing could be committed."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        reach(STORE_BEGAN)
        transaction = _Transaction(connection)
        outcomes = [transaction.apply(request) for request in requests]
        transaction.write_events()
        reach(STORE_APPLIED)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    reach(STORE_COMMITTED)
    return outcomes


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._events: list[tuple[Any, ...]] = []

    def apply(self, request: Request) -> Any:
        """The request's value, or the error that it alone ends with."""
        try:
            return _APPLY[type(request)](self, request)
        except WeftError as error:
            return error
        except (OverflowError, ValueError) as error:  # a number or text that SQLite cannot hold
            return StoreError(f"the store refuses it: {error}")

    def write_events(self) -> None:
        """Append the transaction's events to the log: last, so that their numbers follow the commits."""
        if self._events:
            self._executemany(_SQL["insert_event"], self._events)

    def start(self, request: Start) -> Claim:
        now, owner = micros(request.now), request.owner
        row = self._execute(
            _START,
            (
                now,
                request.worker,
                micros(request.lease_until),
                request.task_id,
                owner.is_everyone,
                owner.user_id,
            ),
        ).fetchone()
        if row is None:
            raise refusal(request, self._task(request.task_id, owner))
        claim = Claim(request.task_id, row[0], request.worker, row[1], row[2])
        self._tell(claim, EventType.TASK_STARTED, now, {"attempt": claim.attempt, "worker": claim.worker})
        return claim

    def report(self, request: Report) -> bool:
        claim, now = request.claim, micros(request.now)
        progress = within_bounds(request.progress)
        parameters = (progress, now, claim.task_id, claim.attempt, claim.worker, claim.user_id)
        is_held = self._execute(_REPORT, parameters).rowcount == 1
        if is_held:
            self._tell(claim, EventType.TASK_PROGRESSED, now, {"progress": progress})
        return is_held

    def finish(self, request: Finish) -> bool:
        claim, outcome, at = request.claim, request.outcome, micros(request.outcome.at)
        columns, facts = ending(outcome)
        parameters = (*columns, at, claim.task_id, claim.attempt, claim.worker, claim.user_id)
        is_held = self._execute(_FINISH, parameters).rowcount == 1
        if is_held:
            self._tell(claim, outcome.event_type, at, {"attempt": claim.attempt, **facts})
        return is_held

    def operate(self, request: Operate) -> Any:
        """Carry an operation out; the savepoint keeps a failing one from touching its neighbours."""
        found = self._found(request.operation.needs(), request.owner)
        decision = request.operation.decide(found)
        events = list(map(event_row, decision.changes.events))
        self._execute("SAVEPOINT operation")
        try:
            self._write(decision.changes)
        except BaseException:
            self._execute("ROLLBACK TO operation")
            raise
        finally:
            self._execute("RELEASE operation")
        self._events.extend(events)
        return decision.value

    def _found(self, needs: Needs, owner: Owner) -> Found:
        tasks = {task.id: task for task in (self._task(task_id, owner) for task_id in needs.tasks) if task}
        flows: dict[TaskId, Flow] = {}
        for task_id in needs.flows_of:
            known = next((flow for flow in flows.values() if task_id in flow), None)
            flow = known or self._flow(task_id, owner)
            if task_id in flow:
                flows[task_id] = flow
        return Found(tasks, flows)

    def _task(self, task_id: TaskId, owner: Owner) -> Task | None:
        row = self._execute(_SQL["get_task"], {"id": task_id, **owner_parameters(owner)}).fetchone()
        return None if row is None else task_of(row)

    def _flow(self, task_id: TaskId, owner: Owner) -> Flow:
        rows = self._execute(_SQL["get_flow"], {"id": task_id, **owner_parameters(owner)})
        return Flow(map(task_of, rows))

    def _write(self, changes: Changes) -> None:
        self._add(changes.added)
        if changes.updated:
            self._executemany(_SQL["update_task"], map(task_row, changes.updated))
        if changes.deleted:
            self._executemany(_SQL["delete_task"], [(task_id,) for task_id in changes.deleted])
        if changes.recounted:
            self._executemany(_SQL["recount_references"], [(task_id,) for task_id in changes.recounted])

    def _add(self, tasks: Sequence[Task]) -> None:
        try:
            self._executemany(_SQL["insert_task"], map(task_row, tasks))
        except sqlite3.IntegrityError as error:
            taken = [task.id for task in tasks if self._is_taken(task.id)]
            if not taken:
                raise
            raise TaskExists(task_ids=taken) from error

    def _is_taken(self, task_id: TaskId) -> bool:
        """Whether the id is stored, whoever owns it: ids are unique across owners."""
        return self._execute(_SQL["task_exists"], (task_id,)).fetchone() is not None

    def _tell(self, claim: Claim, kind: EventType, at: int, facts: dict[str, Any]) -> None:
        self._events.append((kind, claim.task_id, claim.task_tree_id, claim.user_id, at, json_text(facts)))


_APPLY: dict[type[Any], Callable[[_Transaction, Any], Any]] = {
    Start: _Transaction.start,
    Report: _Transaction.report,
    Finish: _Transaction.finish,
    Operate: _Transaction.operate,
}
