"""Steps of runs in SQLite, written only while the attempt at the run's task is held."""

from typing import Any

from weft.ids import TaskId
from weft.store.columns import json_text, step_events
from weft.store.models import Run, StepChange, WriteSteps
from weft.store.sqlite.rows import event_row, task_row
from weft.store.sqlite.unit_of_work import SQL, UnitOfWork
from weft.tasks.events import EventType
from weft.tasks.record import FIELD_NAMES, Status, method_of
from weft.tasks.steps import ENDED_WITH_RUN, ENDED_WITH_STEP

_HOLDS, _UPDATE, _END_BELOW = SQL["holds_run"], SQL["update_step"], SQL["end_steps_below"]
_UPDATED_FIELDS = tuple(
    (name, FIELD_NAMES.index(name))
    for name in (
        "id", "status", "result", "error", "progress", "params", "started_at", "completed_at", "updated_at",
        "origin_type", "original_task_id",
    )
)  # fmt: skip


def write_steps(unit: UnitOfWork, request: WriteSteps) -> frozenset[TaskId] | None:
    """Write steps. Return the ids of those that had already ended; None if the claim is no longer held."""
    run = request.run
    if not _holds(unit, run):
        return None
    refused = set()
    for change in request.changes:
        if change.is_new:
            _insert(unit, run, change)
        elif change.is_params_only:
            unit.insert_steps()
            unit.execute(SQL["mark_step"], (json_text(change.task.params), change.task.id, run.task_id))
        elif not _update(unit, run, change):
            refused.add(change.task.id)
            continue
        _add_events(unit, change)
    return frozenset(refused)


def end_open_steps(unit: UnitOfWork, task_id: TaskId, at: int) -> None:
    """End the open steps of a task that has ended."""
    rows = unit.execute(SQL["end_open_steps"], (task_id, ENDED_WITH_RUN, at)).fetchall()
    _record_ended(unit, rows, ENDED_WITH_RUN, at)


def _record_ended(unit: UnitOfWork, rows: list[Any], error: str, at: int) -> None:
    facts = json_text({"error": error})
    for seq, task_id, tree, user_id in sorted(rows):
        unit.ended[False].append(seq)
        unit.events.append((EventType.TASK_CANCELLED, task_id, tree, user_id, at, facts))


def _holds(unit: UnitOfWork, run: Run) -> bool:
    key = run.task_id, run.attempt
    if key not in unit.held:
        if unit.execute(_HOLDS, key).fetchone() is None:
            return False
        unit.held.add(key)
    return True


def _insert(unit: UnitOfWork, run: Run, change: StepChange) -> None:
    task = change.task
    row = task_row(task)
    row += (method_of(task), 0, run.task_id, change.key, change.input_hash, change.reuse_hash)
    unit.new_steps.append(row)
    if change.is_first_child:
        unit.insert_steps()  # the parent may be one of the collected steps
        unit.execute(SQL["mark_parent"], (task.parent_id,))


def _update(unit: UnitOfWork, run: Run, change: StepChange) -> bool:
    unit.insert_steps()
    row = task_row(change.task)
    values: dict[str, Any] = {name: row[index] for name, index in _UPDATED_FIELDS}
    values |= {"step_of": run.task_id, "step_hash": change.input_hash, "reuse_hash": change.reuse_hash}
    values["is_outcome_used"] = change.is_outcome_used
    found = unit.execute(_UPDATE, values).fetchone()
    if found is None:
        return False
    if change.task.status is not Status.IN_PROGRESS:
        unit.ended[change.task.status is Status.COMPLETED].append(found[0])
        if change.has_steps:
            _end_below(unit, run, change.key, values["completed_at"])
    return True


def _end_below(unit: UnitOfWork, run: Run, key: str, at: int) -> None:
    rows = unit.execute(_END_BELOW, (run.task_id, ENDED_WITH_STEP, at, key)).fetchall()
    _record_ended(unit, rows, ENDED_WITH_STEP, at)


def _add_events(unit: UnitOfWork, change: StepChange) -> None:
    task = change.task
    if task.original_task_id is not None:
        unit.execute(SQL["mark_reused"], (task.original_task_id,))
    unit.events.extend(map(event_row, step_events(change)))
