"""Conversion of task records, attempts and step events to columns, for every SQL dialect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

import msgspec

from weft.errors import InternalError, WeftError
from weft.ids import TaskId
from weft.store.errors import NotJson
from weft.store.models import StepChange
from weft.store.protocol import AttemptResult, Claim, Suspension
from weft.store.requests import Start
from weft.tasks.events import EventType, NewEvent
from weft.tasks.flow import TaskNotFound
from weft.tasks.record import (
    DEPENDENCIES_FIELD,
    ENUM_FIELDS,
    FIELD_NAMES,
    JSON_FIELDS,
    Dependency,
    JsonObject,
    Origin,
    ScheduleType,
    Status,
    Task,
)
from weft.tasks.states import Completed, Started, error_text, require_object, transition
from weft.tasks.steps import OLD_PROMPT, digests_of, is_step, step_fields, with_current_names

_ENUMS: dict[str, type[Enum]] = {"status": Status, "origin_type": Origin, "schedule_type": ScheduleType}
_MEMBERS_OF_FIELD = tuple(
    (index, {None: None, **{member.value: member for member in _ENUMS[FIELD_NAMES[index]]}})
    for index in ENUM_FIELDS
)
"""A lookup in a dict is 20 times faster than `Status(text)`."""

_PARAMS_FIELD = FIELD_NAMES.index("params")

_encode = msgspec.json.Encoder().encode
_decode_dependencies = msgspec.json.Decoder(tuple[Dependency, ...]).decode

json_value = msgspec.json.Decoder().decode
"""Decodes JSON text that a store holds."""


def json_text(value: object) -> str:
    """Return the value as JSON text. Raise NotJson if it cannot be encoded."""
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(error) from error


def columns_of(task: Task) -> list[Any]:
    """Return the record's fields in their order, with JSON and enums as text; other types are unchanged."""
    row: list[Any] = list(msgspec.structs.astuple(task))
    for index in JSON_FIELDS:
        value = row[index]
        if value is not None:
            row[index] = json_text(value) if value else "{}"
    for index in ENUM_FIELDS:
        member = row[index]
        if member is not None:
            row[index] = member._value_  # `.value` costs a Python call
    dependencies = row[DEPENDENCIES_FIELD]
    row[DEPENDENCIES_FIELD] = json_text(dependencies) if dependencies else "[]"
    return row


def task_of_columns(values: list[Any]) -> Task:
    """Return the record with these fields, in their order. Modifies the list."""
    for index in JSON_FIELDS:
        if values[index] is not None:
            values[index] = json_value(values[index])
    params = values[_PARAMS_FIELD]
    if params is not None and OLD_PROMPT in params:
        values[_PARAMS_FIELD] = with_current_names(params)
    try:
        for index, members in _MEMBERS_OF_FIELD:
            values[index] = members[values[index]]
    except KeyError as error:
        raise ValueError(f"unknown status, origin or schedule type: {error}") from None
    dependencies = values[DEPENDENCIES_FIELD]
    values[DEPENDENCIES_FIELD] = () if dependencies == "[]" else _decode_dependencies(dependencies)
    return Task(**dict(zip(FIELD_NAMES, values, strict=True)))


def waiting_for(task: Task, statuses: Mapping[TaskId, Status]) -> int:
    """Return how many dependencies do not let the task start yet, given the statuses of its flow."""
    return sum(not dependency.allows(statuses[dependency.id]) for dependency in task.dependencies)


STEP_COLUMNS = ("step_of", "step_key", "step_hash", "reuse_hash")

StepRow = tuple[TaskId | None, str | None, str | None, str | None]

_NO_STEP: StepRow = (None, None, None, None)


def step_rows(tasks: Sequence[Task]) -> Iterator[StepRow]:
    """Yield the values of the step columns for each task of an added flow.

    Engines do not claim steps. Only a step with digests is found when its run is resumed.
    """
    parents = {task.id: task.parent_id for task in tasks if is_step(task)}
    return (_step_row(task, parents) if task.id in parents else _NO_STEP for task in tasks)


def _step_row(task: Task, parents: Mapping[TaskId, TaskId | None]) -> StepRow:
    run_id = task.parent_id
    while run_id is not None and run_id in parents:
        run_id = parents[run_id]
    digests = digests_of(task)
    if run_id is None or digests is None:
        return run_id, None, None, None
    return run_id, step_fields(task).key, digests.asked, digests.reuse


def dependent_rows(tasks: Iterable[Task]) -> Iterator[tuple[TaskId, TaskId, bool]]:
    """Yield (dependency, dependent, whether it is required) for each dependency of the tasks."""
    return (
        (dependency.id, task.id, dependency.required) for task in tasks for dependency in task.dependencies
    )


CLOCK_PUT_BACK = "the clock was put back; the delay starts again"


def claim_facts(claim: Claim) -> JsonObject:
    """Return the facts of an event about a claim: the attempt and its worker."""
    return {"attempt": claim.attempt, "worker": claim.worker}


def ending(
    request: AttemptResult, retry_at: datetime | None
) -> tuple[tuple[Any, ...], list[tuple[EventType, JsonObject]]]:
    """Return the columns after an attempt ends (status, result, error, progress), and its events.

    A progress of None leaves the column unchanged. If the attempt is retried, the columns describe the
    attempt and not the task, which is pending again.
    """
    outcome = request.outcome
    facts: JsonObject = {"attempt": request.claim.attempt}
    if isinstance(outcome, Completed):
        require_object(outcome.result)
        columns: tuple[Any, ...] = ("completed", json_text(outcome.result), None, 1.0)
    else:
        facts["error"] = error_text(outcome.error)
        columns = (outcome.verb, None, facts["error"], None)
    events = [(outcome.event_type, facts)]
    if retry_at is not None:
        events.append((EventType.TASK_RETRIED, {"at": retry_at.isoformat()}))
    return columns, events


def suspended_dependencies(request: Suspension, *, has_ended: bool) -> tuple[Dependency, ...]:
    """Return the dependencies of a suspended task: its own, and `until` unless one of those has ended."""
    if has_ended:
        return request.dependencies
    return (*request.dependencies, *(Dependency(task_id, required=False) for task_id in request.until))


def refusal(request: Start, task: Task | None) -> WeftError:
    """Return the error that says why the task could not be started; None as `task`: it does not exist."""
    if task is None:
        return TaskNotFound(task_id=request.task_id)
    try:
        transition(task, Started(request.now))
    except WeftError as error:
        return error
    return InternalError(f"task {task.id} could be started, but was not")


_END_EVENTS = {
    Status.COMPLETED: EventType.TASK_COMPLETED,
    Status.FAILED: EventType.TASK_FAILED,
    Status.CANCELLED: EventType.TASK_CANCELLED,
}


def step_events(change: StepChange) -> Iterator[NewEvent]:
    """Yield the events of a step: its start, once per attempt at the run, and its end."""
    if change.is_params_only:
        return
    task = change.task
    tree, began, ended = task.task_tree_id or task.id, task.started_at, task.completed_at
    if began is not None and not change.is_continued:
        yield NewEvent(EventType.TASK_STARTED, task.id, tree, task.user_id, began, {"step": change.key})
    kind = _END_EVENTS.get(task.status)
    if kind is not None and ended is not None:
        facts: JsonObject = {} if task.error is None else {"error": task.error}
        if task.original_task_id is not None:
            facts["reused"] = task.original_task_id
        yield NewEvent(kind, task.id, tree, task.user_id, ended, facts)
