"""Task records as columns: what rows of every dialect have in common."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import msgspec

from weft.ids import TaskId
from weft.store.errors import NotJson
from weft.tasks.kinds import DEPENDENCIES_FIELD, ENUM_FIELDS, JSON_FIELDS
from weft.tasks.record import FIELD_NAMES, Dependency, Origin, ScheduleType, Status, Task
from weft.tasks.steps import KEY, digests_of, is_step, mark_of

_ENUMS: dict[str, type[Enum]] = {"status": Status, "origin_type": Origin, "schedule_type": ScheduleType}
_MEMBERS_OF_FIELD = tuple(
    (index, {None: None, **{member.value: member for member in _ENUMS[FIELD_NAMES[index]]}})
    for index in ENUM_FIELDS
)
"""A look-up in a dict costs a twentieth of `Status(text)`."""

_encode = msgspec.json.Encoder().encode
_decode_dependencies = msgspec.json.Decoder(tuple[Dependency, ...]).decode

json_value = msgspec.json.Decoder().decode
"""The value of a JSON text that a store holds."""


def json_text(value: object) -> str:
    """The value as JSON text; raises NotJson."""
    try:
        return _encode(value).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(error) from error


def columns_of(task: Task) -> list[Any]:
    """The record's fields in their order, with JSON and enumerations as text; times and truth values stay."""
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
    """The record whose fields these are, in their order; the list is used up."""
    for index in JSON_FIELDS:
        if values[index] is not None:
            values[index] = json_value(values[index])
    try:
        for index, members in _MEMBERS_OF_FIELD:
            values[index] = members[values[index]]
    except KeyError as error:
        raise ValueError(f"no such state or kind: {error}") from None
    dependencies = values[DEPENDENCIES_FIELD]
    values[DEPENDENCIES_FIELD] = () if dependencies == "[]" else _decode_dependencies(dependencies)
    return Task(**dict(zip(FIELD_NAMES, values, strict=True)))


def waiting_for(task: Task, statuses: Mapping[TaskId, Status]) -> int:
    """How many dependencies do not let the task start yet, among tasks of these statuses."""
    return sum(not dependency.allows(statuses[dependency.id]) for dependency in task.dependencies)


STEP_COLUMNS = ("step_of", "step_key", "step_hash", "reuse_hash")

StepRow = tuple[TaskId | None, str | None, str | None, str | None]

_NO_STEP: StepRow = (None, None, None, None)


def step_rows(tasks: Sequence[Task]) -> Iterator[StepRow]:
    """What the step columns hold of tasks that come with a flow, for each.

    No engine performs a step. Only one that came with its digests is found by what goes on with its run.
    """
    parents = {task.id: task.parent_id for task in tasks if is_step(task)}
    return (_step_row(task, parents) if task.id in parents else _NO_STEP for task in tasks)


def _step_row(task: Task, parents: Mapping[TaskId, TaskId | None]) -> StepRow:
    maker = task.parent_id
    while maker is not None and maker in parents:
        maker = parents[maker]
    digests = digests_of(task)
    if maker is None or digests is None:
        return maker, None, None, None
    return maker, str(mark_of(task)[KEY]), digests.asked, digests.reuse


def dependent_rows(tasks: Iterable[Task]) -> Iterator[tuple[TaskId, TaskId, bool]]:
    """The dependencies of the tasks turned round: dependency, who waits for it, whether it is required."""
    return (
        (dependency.id, task.id, dependency.required) for task in tasks for dependency in task.dependencies
    )
