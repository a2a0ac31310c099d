"""Perform operations: read what they need, let them decide, write their changes."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from weft.ids import TaskId
from weft.store.columns import dependent_rows, step_rows, waiting_for
from weft.store.errors import task_exists
from weft.store.protocol import Owner
from weft.store.requests import Operate
from weft.store.sqlite.rows import event_row, task_of, task_row
from weft.store.sqlite.unit_of_work import SQL, UnitOfWork
from weft.tasks.decisions import ReadSet, Snapshot, WriteSet
from weft.tasks.flow import Flow
from weft.tasks.record import Task, method_of


def owner_parameters(owner: Owner) -> dict[str, Any]:
    """Return the query parameters that restrict a query to an owner."""
    return {"everyone": owner.is_everyone, "user_id": owner.user_id}


def operate(unit: UnitOfWork, request: Operate) -> Any:
    """Perform an operation in a savepoint, so that a failed one does not affect other requests."""
    decision = request.operation.decide(_read_snapshot(unit, request.operation.needs(), request.owner))
    events = list(map(event_row, decision.changes.events))
    unit.execute("SAVEPOINT operation")
    try:
        _write(unit, decision.changes)
    except BaseException:
        unit.execute("ROLLBACK TO operation")
        raise
    finally:
        unit.execute("RELEASE operation")
    unit.events.extend(events)
    return decision.value


def read_task(unit: UnitOfWork, task_id: TaskId, owner: Owner) -> Task | None:
    """Return one task, or None if it does not exist for the owner."""
    row = unit.execute(SQL["get_task"], {"id": task_id, **owner_parameters(owner)}).fetchone()
    return None if row is None else task_of(row)


def _read_snapshot(unit: UnitOfWork, needs: ReadSet, owner: Owner) -> Snapshot:
    tasks = {task.id: task for task in (read_task(unit, task_id, owner) for task_id in needs.tasks) if task}
    flows: dict[TaskId, Flow] = {}
    for task_id in needs.flows_of:
        known = next((flow for flow in flows.values() if task_id in flow), None)
        flow = known or _flow(unit, task_id, owner)
        if task_id in flow:
            flows[task_id] = flow
    running = frozenset(
        task_id for task_id in needs.unfinished_runs_of if _has_unfinished_run(unit, task_id, owner)
    )
    return Snapshot(tasks, flows, running)


def _flow(unit: UnitOfWork, task_id: TaskId, owner: Owner) -> Flow:
    return Flow(
        map(task_of, unit.execute(SQL["get_flow"], {"id": task_id, "limit": -1, **owner_parameters(owner)}))
    )


def _has_unfinished_run(unit: UnitOfWork, task_id: TaskId, owner: Owner) -> bool:
    parameters = {"id": task_id, **owner_parameters(owner)}
    return bool(unit.execute(SQL["has_unfinished_run"], parameters).fetchone()[0])


def _write(unit: UnitOfWork, changes: WriteSet) -> None:
    _add(unit, changes.added)
    _update(unit, changes.updated)
    for root_id in changes.run:
        unit.execute(SQL["run_flow"], (root_id, True, None))
    if changes.deleted:
        ids = [(task_id,) for task_id in changes.deleted]
        unit.executemany(SQL["delete_dependents_of"], ids)
        unit.executemany(SQL["delete_task"], ids)
    if changes.recounted:
        unit.executemany(SQL["recount_references"], [(task_id,) for task_id in changes.recounted])


def _add(unit: UnitOfWork, tasks: Sequence[Task]) -> None:
    statuses = {task.id: task.status for task in tasks}
    rows = (
        [*task_row(task), method_of(task), waiting_for(task, statuses), *step]
        for task, step in zip(tasks, step_rows(tasks), strict=True)
    )
    try:
        unit.executemany(SQL["insert_task"], rows)
    except sqlite3.IntegrityError as error:
        owners = _owners(unit, tasks)
        if not owners:
            raise
        raise task_exists(tasks, owners) from error
    for root_id in {task.task_tree_id for task in tasks}:
        unit.execute(SQL["mark_referenced"], (root_id,))
    (last,) = unit.execute(SQL["last_seq"]).fetchone()
    seqs = {task.id: seq for seq, task in enumerate(tasks, last + 1 - len(tasks))}
    unit.executemany(
        SQL["insert_dependent_of_seq"],
        (
            (seqs[dependency], seqs[dependent], is_required)
            for dependency, dependent, is_required in dependent_rows(tasks)
        ),
    )


def _update(unit: UnitOfWork, tasks: Sequence[Task]) -> None:
    """Write changed records, and recount how many dependencies they and their dependents wait for."""
    ids = [(task.id,) for task in tasks]
    unit.executemany(SQL["delete_dependents_of"], ids)
    unit.executemany(SQL["update_task"], ([*task_row(task), method_of(task)] for task in tasks))
    unit.executemany(SQL["insert_dependent"], dependent_rows(tasks))
    unit.executemany(SQL["recount_waiting"], ids)


def _owners(unit: UnitOfWork, tasks: Sequence[Task]) -> dict[str, str | None]:
    """Return the owners of stored tasks with the ids of `tasks`; ids are unique across owners."""
    found = ((task.id, unit.execute(SQL["task_owner"], (task.id,)).fetchone()) for task in tasks)
    return {task_id: row[0] for task_id, row in found if row is not None}
