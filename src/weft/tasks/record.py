"""The task record: the 29 fields of the protocol and two auxiliary fields.

The annotations are the single source of types, defaults, constraints and descriptions. The JSON Schema
(`weft.tasks.json_schema`), the field checks and the documentation are generated from them.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, inspect

from weft.ids import UUID4_PATTERN, TaskId
from weft.limits import MAX_COUNT, MAX_NAME_CHARACTERS, clean_text

JsonObject = dict[str, Any]


class Status(StrEnum):
    """The state of a task; `weft.tasks.states` defines the transitions."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED})


class Origin(StrEnum):
    """How a task record was made."""

    CREATE = "create"
    LINK = "link"
    COPY = "copy"
    ARCHIVE = "archive"


class ScheduleType(StrEnum):
    """The six kinds of schedules."""

    ONCE = "once"
    INTERVAL = "interval"
    CRON = "cron"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class ExecutorType(StrEnum):
    """Where an executor runs."""

    LOCAL = "local"
    REMOTE = "remote"
    EXTERNAL = "external"


# The length bounds are needed because Python's `$` also matches before a final line break.
_UUID = Meta(pattern=UUID4_PATTERN, min_length=36, max_length=36, extra_json_schema={"format": "uuid"})
_Id = Annotated[TaskId, _UUID]
# PostgreSQL cannot store NUL in text, so it is rejected for every store.
_Text = Annotated[str, Meta(min_length=1, pattern=r"^[^\x00]*$")]
_Time = Annotated[datetime, Meta(tz=True)]
_Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]

_SCHEMAS_PROPERTIES: JsonObject = {
    "required": ["method"],
    "properties": {
        "type": {
            "type": "string",
            "enum": [kind.value for kind in ExecutorType],
            "description": "Executor type.",
        },
        "method": {"type": "string", "minLength": 1, "description": "Executor identifier in the registry."},
        "input_schema": {
            "type": "object",
            "description": "JSON Schema (draft-07) that `inputs` must satisfy.",
        },
        "model": {"type": "string", "description": "Model identifier, for executors that use one."},
    },
    "additionalProperties": True,
}


def _about(text: str, **extra: Any) -> Meta:
    return Meta(description=text, extra_json_schema=extra or None)


class Dependency(Struct, frozen=True, forbid_unknown_fields=True):
    """A task that must end before another can start."""

    id: Annotated[_Id, _about("ID of the task to depend on; a task of the same flow.")]
    required: Annotated[bool, _about("Whether it must complete; false: it must only end.")] = True

    def allows(self, status: Status) -> bool:
        """Return whether a dependency in this status lets the dependent task start."""
        return status is Status.COMPLETED or (not self.required and status.is_terminal)


class Task(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A task record: the stored unit of work."""

    id: Annotated[_Id, _about("Unique identifier (UUID v4).")]
    parent_id: Annotated[_Id | None, _about("ID of the parent task; groups tasks, orders nothing.")] = None
    user_id: Annotated[_Text | None, _about("Owner of the task.")] = None
    name: Annotated[_Text, Meta(max_length=MAX_NAME_CHARACTERS), _about("Name of the task.")]
    status: Annotated[Status, _about("Current state.")]
    priority: Annotated[int, Meta(ge=0, le=3), _about("0 urgent, 1 high, 2 normal, 3 low.")] = 2
    inputs: Annotated[JsonObject, _about("Runtime input of the executor.")] = {}
    schemas: Annotated[
        JsonObject | None, _about("Which executor, and what inputs it takes.", **_SCHEMAS_PROPERTIES)
    ] = None
    params: Annotated[JsonObject | None, _about("Further settings of the executor and the engine.")] = None
    result: Annotated[JsonObject | None, _about("Outcome; null unless completed.")] = None
    error: Annotated[_Text | None, _about("Error message; null unless failed or cancelled.")] = None
    dependencies: Annotated[
        tuple[Dependency, ...], _about("Tasks that must end before this one starts.")
    ] = ()
    progress: Annotated[float, Meta(ge=0.0, le=1.0), _about("Fraction done.")] = 0.0
    created_at: Annotated[_Time | None, _about("When the task was created.")] = None
    started_at: Annotated[_Time | None, _about("When execution began; null while pending.")] = None
    updated_at: Annotated[_Time | None, _about("When the task last changed.")] = None
    completed_at: Annotated[_Time | None, _about("When it ended; null unless it has.")] = None
    origin_type: Annotated[Origin | None, _about("How the definition came to be.")] = None
    original_task_id: Annotated[_Id | None, _about("Source of a copy, link or archive.")] = None
    has_references: Annotated[bool, _about("Whether other tasks were made from this one.")] = False
    schedule_type: Annotated[ScheduleType | None, _about("Kind of schedule.")] = None
    schedule_expression: Annotated[_Text | None, _about("When it is due, in the form of its kind.")] = None
    schedule_enabled: Annotated[bool, _about("Whether the schedule is on.")] = False
    schedule_start_at: Annotated[_Time | None, _about("Not due before this time.")] = None
    schedule_end_at: Annotated[_Time | None, _about("Not due after this time.")] = None
    next_run_at: Annotated[_Time | None, _about("Next due time; computed.")] = None
    last_run_at: Annotated[_Time | None, _about("Last time it fired.")] = None
    max_runs: Annotated[_Count | None, _about("How often it may fire; null: without end.")] = None
    run_count: Annotated[_Count, _about("How often it has fired.")] = 0
    task_tree_id: Annotated[_Id | None, _about("ID of the flow's root (auxiliary, computed).")] = None
    has_children: Annotated[bool, _about("Whether it has child tasks (auxiliary, computed).")] = False

    @property
    def is_frozen(self) -> bool:
        """Return whether the task is part of an archive, so that nothing may change it."""
        return self.origin_type is Origin.ARCHIVE


FIELD_NAMES: tuple[str, ...] = Task.__struct_fields__


def evolve(task: Task, **changes: Any) -> Task:
    """Return a copy of the task with some fields changed."""
    return msgspec.structs.replace(task, **changes)


def first_source(task: Task) -> TaskId:
    """Return the task that a link to this task refers to: a link to a link refers to the first source."""
    is_link = task.origin_type is Origin.LINK
    return (task.original_task_id if is_link else None) or task.id


MAX_METHOD_CHARACTERS = 255
"""Length of a method's name that every store can index; no executor has a longer name."""


def method_of(task: Task) -> str:
    """Return the task's executor name in a form that every store can index; empty if it has none."""
    return indexed_method(str((task.schemas or {}).get("method", "")))


def indexed_method(method: str) -> str:
    """Return the name of an executor in a form that every store can index."""
    return clean_text(method[:MAX_METHOD_CHARACTERS])


def _type_name(info: object) -> str:
    while isinstance(info, inspect.Metadata):
        info = info.type
    if isinstance(info, inspect.UnionType):
        return _type_name(next(member for member in info.types if not isinstance(member, inspect.NoneType)))
    return type(info).__name__


_INFO = inspect.type_info(Task)
assert isinstance(_INFO, inspect.StructType)  # noqa: S101 - for the type checker
_FIELD_TYPES = tuple(_type_name(field.type) for field in _INFO.fields)

JSON_FIELDS = tuple(i for i, kind in enumerate(_FIELD_TYPES) if kind == "DictType")
TIME_FIELDS = tuple(i for i, kind in enumerate(_FIELD_TYPES) if kind == "DateTimeType")
BOOL_FIELDS = tuple(i for i, kind in enumerate(_FIELD_TYPES) if kind == "BoolType")
ENUM_FIELDS = tuple(i for i, kind in enumerate(_FIELD_TYPES) if kind == "EnumType")
DEPENDENCIES_FIELD = _FIELD_TYPES.index("VarTupleType")
