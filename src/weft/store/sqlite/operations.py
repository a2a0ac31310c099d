"""Carrying operations out: read what they need, let them decide, write what they decided."""

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
    """The two parameters that every query on behalf of an owner has."""
    return {"everyone": owner.is_everyone, "user_id": owner.user_id}


def operate(writing: UnitOfWork, request: Operate) -> Any:
    """Carry an operation out; the savepoint keeps a failing one from touching its neighbours."""
    decision = request.operation.decide(_found(writing, request.operation.needs(), request.owner))
    events = list(map(event_row, decision.changes.events))
    writing.execute("SAVEPOINT operation")
    try:
        _write(writing, decision.changes)
    except BaseException:
        writing.execute("ROLLBACK TO operation")
        raise
    finally:
        writing.execute("RELEASE operation")
    writing.events.extend(events)
    return decision.value


def read_task(writing: UnitOfWork, task_id: TaskId, owner: Owner) -> Task | None:
    """One task, if it exists for the owner."""
    row = writing.execute(SQL["get_task"], {"id": task_id, **owner_parameters(owner)}).fetchone()
    return None if row is None else task_of(row)


def _found(writing: UnitOfWork, needs: ReadSet, owner: Owner) -> Snapshot:
    tasks = {
        task.id: task for task in (read_task(writing, task_id, owner) for task_id in needs.tasks) if task
    }
    flows: dict[TaskId, Flow] = {}
    for task_id in needs.flows_of:
        known = next((flow for flow in flows.values() if task_id in flow), None)
        flow = known or _flow(writing, task_id, owner)
        if task_id in flow:
            flows[task_id] = flow
    running = frozenset(
        task_id for task_id in needs.unfinished_runs_of if _has_unfinished_run(writing, task_id, owner)
    )
    return Snapshot(tasks, flows, running)


def _flow(writing: UnitOfWork, task_id: TaskId, owner: Owner) -> Flow:
    return Flow(
        map(
            task_of, writing.execute(SQL["get_flow"], {"id": task_id, "limit": -1, **owner_parameters(owner)})
        )
    )


def _has_unfinished_run(writing: UnitOfWork, task_id: TaskId, owner: Owner) -> bool:
    parameters = {"id": task_id, **owner_parameters(owner)}
    return bool(writing.execute(SQL["has_unfinished_run"], parameters).fetchone()[0])


def _write(writing: UnitOfWork, changes: WriteSet) -> None:
    _add(writing, changes.added)
    _update(writing, changes.updated)
    for root_id in changes.run:
        writing.execute(SQL["run_flow"], (root_id, True, None))
    if changes.deleted:
        ids = [(task_id,) for task_id in changes.deleted]
        writing.executemany(SQL["delete_dependents_of"], ids)
        writing.executemany(SQL["delete_task"], ids)
    if changes.recounted:
        writing.executemany(SQL["recount_references"], [(task_id,) for task_id in changes.recounted])


def _add(writing: UnitOfWork, tasks: Sequence[Task]) -> None:
    statuses = {task.id: task.status for task in tasks}
    rows = (
        [*task_row(task), method_of(task), waiting_for(task, statuses), *step]
        for task, step in zip(tasks, step_rows(tasks), strict=True)
    )
    try:
        writing.executemany(SQL["insert_task"], rows)
    except sqlite3.IntegrityError as error:
        owners = _owners(writing, tasks)
        if not owners:
            raise
        raise task_exists(tasks, owners) from error
    for root_id in {task.task_tree_id for task in tasks}:
        writing.execute(SQL["mark_referenced"], (root_id,))
    (last,) = writing.execute(SQL["last_seq"]).fetchone()
    seqs = {task.id: seq for seq, task in enumerate(tasks, last + 1 - len(tasks))}
    writing.executemany(
        SQL["insert_dependent_of_seq"],
        (
            (seqs[dependency], seqs[dependent], is_required)
            for dependency, dependent, is_required in dependent_rows(tasks)
        ),
    )


def _update(writing: UnitOfWork, tasks: Sequence[Task]) -> None:
    """Write changed records; whoever waits for them is counted anew, whatever it was that changed."""
    ids = [(task.id,) for task in tasks]
    writing.executemany(SQL["delete_dependents_of"], ids)
    writing.executemany(SQL["update_task"], ([*task_row(task), method_of(task)] for task in tasks))
    writing.executemany(SQL["insert_dependent"], dependent_rows(tasks))
    writing.executemany(SQL["recount_waiting"], ids)


def _owners(writing: UnitOfWork, tasks: Sequence[Task]) -> dict[str, str | None]:
    """Return who owns the stored tasks that have ids of these: ids are unique across owners."""
    found = ((task.id, writing.execute(SQL["task_owner"], (task.id,)).fetchone()) for task in tasks)
    return {task_id: row[0] for task_id, row in found if row is not None}
