"""Perform operations: read what they need, let them decide, write their changes."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from weft.ids import TaskId
from weft.store.columns import json_text
from weft.store.errors import task_exists
from weft.store.models import Owner
from weft.store.records import NO_LIMIT, write_changes
from weft.store.sqlite.rows import task_of
from weft.store.sqlite.transaction import SQL, Transaction
from weft.store.unit_of_work import Operate, event_row
from weft.tasks.decisions import ReadSet, Snapshot, WriteSet
from weft.tasks.flow import Flow


def operate(transaction: Transaction, request: Operate) -> Any:
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
        raise task_exists(changes.added, taken) from error
