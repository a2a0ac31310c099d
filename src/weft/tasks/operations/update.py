"""Update fields of a stored task, or the options of a run."""

from collections.abc import Iterable
from datetime import datetime

from msgspec import to_builtins

from weft.tasks.decisions import Decision, ReadSet, Snapshot, TaskOperation, WriteSet
from weft.tasks.events import EventType, task_event
from weft.tasks.parsing.problems import InvalidTasks, Problem, nearest, shown
from weft.tasks.parsing.rules import checked_task, flow_problems, node_of
from weft.tasks.program_params import PROGRAM, folder_of, folder_problems
from weft.tasks.record import FIELD_NAMES, JsonObject, Status, Task, evolve
from weft.tasks.schedules.schedule import planned
from weft.tasks.states import require_changeable

_READ_ONLY = {
    "id": "an id never changes",
    "parent_id": "a task cannot be moved in its tree",
    "user_id": "a task keeps its owner",
    "status": "the state machine sets it; use cancel or retry",
    "result": "only its executor writes it",
    "error": "only its executor writes it",
    "progress": "only its executor writes it",
    "created_at": "it is set once",
    "started_at": "the state machine sets it",
    "updated_at": "it is set by every change",
    "completed_at": "the state machine sets it",
    "origin_type": "it records how the task was made",
    "original_task_id": "it records the source of the task",
    "has_references": "it is computed",
    "next_run_at": "it is computed",
    "last_run_at": "the scheduler sets it",
    "run_count": "the scheduler sets it",
    "task_tree_id": "it is computed",
    "has_children": "it is computed",
}
# Fields that an attempt has used must not change, except to fix a failed task before a retry.
_UPDATABLE_IN = {
    "dependencies": frozenset({Status.PENDING}),
    "inputs": frozenset({Status.PENDING, Status.FAILED}),
    "params": frozenset({Status.PENDING, Status.FAILED}),
    "schemas": frozenset({Status.PENDING, Status.FAILED}),
}
_SCHEDULE_FIELDS = frozenset(
    {
        "schedule_type",
        "schedule_expression",
        "schedule_enabled",
        "schedule_start_at",
        "schedule_end_at",
        "max_runs",
        "params",
    }
)


class UpdateTask(TaskOperation, frozen=True, kw_only=True):
    """Updates fields of a task; the value is the task afterwards."""

    fields: JsonObject
    now: datetime

    def needs(self) -> ReadSet:
        # Only new dependencies concern the other tasks of the flow.
        flows = (self.task_id,) if "dependencies" in self.fields else ()
        return ReadSet(tasks=(self.task_id,), flows_of=flows)

    def decide(self, found: Snapshot) -> Decision[Task]:
        task = found.task(self.task_id)
        require_changeable(task)
        changed = self._changed(task)
        if "dependencies" in self.fields:
            flow = found.flow_of(self.task_id)
            nodes = [node_of(changed if one.id == changed.id else one) for one in flow]
            if problems := flow_problems(nodes):
                raise InvalidTasks(problems)
        return _updated(changed, self.fields, self.now)

    def _changed(self, task: Task) -> Task:
        """Return the task with the new fields. Raise InvalidTasks with all problems found."""
        refused = {field: _refusals(task, field, value) for field, value in self.fields.items()}
        allowed = {field: value for field, value in self.fields.items() if not refused[field]}
        # The next due time is not checked, because it is computed from the other fields.
        changed, problems = checked_task({**to_builtins(task), **allowed, "next_run_at": None})
        problems = [*(problem for found in refused.values() for problem in found), *problems]
        if problems or changed is None:
            raise InvalidTasks(problems)
        changed = evolve(changed, updated_at=self.now)
        if self.fields.keys() & _SCHEDULE_FIELDS:
            return planned(changed, after=self.now)
        return evolve(changed, next_run_at=task.next_run_at)


def _refusals(task: Task, field: str, value: object) -> list[Problem]:
    if field in _READ_ONLY:
        return [
            Problem(
                field, f"{field} cannot be updated: {_READ_ONLY[field]}", "unchanged", shown(value), field
            )
        ]
    if field not in FIELD_NAMES:
        reason = f"unknown field '{shown(field)}'{nearest(field, FIELD_NAMES)}"
        return [Problem(field, reason, "a field of the task record", shown(field), field)]
    has_program = isinstance(value, dict) and PROGRAM in value
    if field == "params" and PROGRAM in (task.params or {}) and not has_program:
        reason = "params of a run must keep 'program': without it the run can neither be resumed nor copied"
        return [Problem(field, reason, "params with the program", shown(value), field)]
    if field == "params" and (problems := folder_problems(value, stored=folder_of(task.params))):
        return problems
    allowed = _UPDATABLE_IN.get(field)
    if allowed is not None and task.status not in allowed:
        states = " or ".join(sorted(allowed))
        reason = f"{field} can be updated only while the task is {states}; it is {task.status}"
        return [Problem(field, reason, states, task.status.value, field)]
    return []


class ChangeRun(TaskOperation, frozen=True, kw_only=True):
    """Updates entries of a run's `params`, whatever its status; the value is the task afterwards.

    A process that runs the task has read `params` already, so the caller must ensure that no process runs it.
    """

    params: JsonObject
    now: datetime

    def decide(self, found: Snapshot) -> Decision[Task]:
        task = found.task(self.task_id)
        require_changeable(task)
        changed = evolve(task, params={**(task.params or {}), **self.params}, updated_at=self.now)
        return _updated(changed, ["params"], self.now)


def _updated(task: Task, fields: Iterable[str], now: datetime) -> Decision[Task]:
    event = task_event(EventType.TASK_UPDATED, task, now, {"fields": sorted(fields)})
    return Decision(WriteSet(updated=(task,), events=(event,)), task)
