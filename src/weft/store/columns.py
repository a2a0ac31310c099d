"""Conversion of task records to columns, for every SQL dialect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from weft.ids import TaskId
from weft.store.errors import NotJson
from weft.tasks.record import (
    DEPENDENCIES_FIELD,
    ENUM_FIELDS,
    FIELD_NAMES,
    JSON_FIELDS,
    Dependency,
    Origin,
    ScheduleType,
    Status,
    Task,
)
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
