"""One write transaction: a group of requests, applied in order, each with its own outcome."""

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.errors import TaskExists
from weft.store.protocol import Claim, Owner
from weft.store.queries import load_queries
from weft.store.requests import Finish, Operate, Report, Request, Start
from weft.store.sqlite.rows import event_row, json_text, micros, task_of, task_row
from weft.tasks.changes import Changes, Found, Needs
from weft.tasks.events import NewEvent
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.record import Task
from weft.tasks.states import Cancelled, Completed, Failed, Move, Progressed, Started, error_text, transition

_SQL = load_queries("sqlite")


def owner_parameters(owner: Owner) -> dict[str, Any]:
    """The two parameters that every query on behalf of an owner has."""
    return {"everyone": owner.is_everyone, "user_id": owner.user_id}


def commit_group(connection: sqlite3.Connection, requests: Sequence[Request]) -> list[Any]:
    """The value or error of each request, all committed together; raises when nothing could be committed."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        transaction = _Transaction(connection)
        outcomes = [transaction.apply(request) for request in requests]
        transaction.write_events()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
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

    def write_events(self) -> None:
        """Append the transaction's events to the log: last, so that their numbers follow the commits."""
        if self._events:
            self._executemany(_SQL["insert_event"], self._events)

    def start(self, request: Start) -> Claim:
        row = self._execute(
            _SQL["start_task"],
            {
                "id": request.task_id,
                "worker": request.worker,
                "now": micros(request.now),
                "lease_until": micros(request.lease_until),
                **owner_parameters(request.owner),
            },
        ).fetchone()
        if row is None:
            raise self._refusal(request)
        claim = Claim(request.task_id, row[0], request.worker, row[1], row[2])
        self._tell(claim, Started, request.now, {"attempt": claim.attempt, "worker": claim.worker})
        return claim

    def _refusal(self, request: Start) -> WeftError:
        """Why the task could not be started."""
        task = self._task(request.task_id, request.owner)
        if task is None:
            return TaskNotFound(task_id=request.task_id)
        try:
            transition(task, Started(request.now))
        except WeftError as error:
            return error
        raise AssertionError(f"task {task.id} may be started, but was not")

    def report(self, request: Report) -> bool:
        changed = self._execute(
            _SQL["report_progress"],
            {"progress": min(max(request.progress, 0.0), 1.0), "now": micros(request.now), **_claim(request.claim)},
        ).rowcount
        if changed:
            self._tell(request.claim, Progressed, request.now, {"progress": request.progress})
        return changed == 1

    def finish(self, request: Finish) -> bool:
        outcome = request.outcome
        columns: dict[str, Any] = {"result": None, "error": None, "progress": None}
        facts: dict[str, Any] = {"attempt": request.claim.attempt}
        match outcome:
            case Completed(result=result):
                columns |= {"status": "completed", "result": json_text(result), "progress": 1.0}
            case Failed(error=error) | Cancelled(error=error):
                facts["error"] = error_text(error)
                columns |= {"status": outcome.verb, "error": facts["error"]}
        at = micros(outcome.at)
        changed = self._execute(_SQL["finish_task"], {"at": at, **columns, **_claim(request.claim)}).rowcount
        if changed:
            self._tell(request.claim, type(outcome), outcome.at, facts)
        return changed == 1

    def operate(self, request: Operate) -> Any:
        """Carry an operation out; a savepoint keeps a failing one from touching its neighbours in the group."""
        found = self._found(request.operation.needs(), request.owner)
        decision = request.operation.decide(found)
        self._execute("SAVEPOINT operation")
        try:
            self._write(decision.changes)
        except BaseException:
            self._execute("ROLLBACK TO operation")
            raise
        finally:
            self._execute("RELEASE operation")
        self._events.extend(map(event_row, decision.changes.events))
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

    def _tell(self, claim: Claim, move: type[Move], at: datetime, facts: dict[str, Any]) -> None:
        event = NewEvent(move.event_type, claim.task_id, claim.task_tree_id, claim.user_id, at, facts)
        self._events.append(event_row(event))


def _claim(claim: Claim) -> dict[str, Any]:
    return {"id": claim.task_id, "attempt": claim.attempt, "worker": claim.worker, "user_id": claim.user_id}


_APPLY: dict[type[Any], Callable[[_Transaction, Any], Any]] = {
    Start: _Transaction.start,
    Report: _Transaction.report,
    Finish: _Transaction.finish,
    Operate: _Transaction.operate,
}


