"""Rules between the fields of one task: what its status, schedule and origin allow."""

from collections.abc import Callable, Iterator

from weft.tasks.input_mappings import mapping_problems
from weft.tasks.problems import Problem, joined, shown
from weft.tasks.record import Origin, ScheduleType, Status, Task
from weft.tasks.retries import retry_problems
from weft.tasks.schedule_errors import ScheduleError
from weft.tasks.schedule_expressions import parse_expression
from weft.tasks.schedule_policies import catch_up, overlap, time_zone
from weft.tasks.schedules import check, schedule_of
from weft.tasks.steps import is_step
from weft.tasks.time_limits import timeout_problems
from weft.tasks.time_zones import zone_named

_ERROR_STATES = frozenset({Status.FAILED, Status.CANCELLED})


def consistency_problems(task: Task, *, path: str = "") -> list[Problem]:
    """Every rule between fields that the task breaks."""
    found = [*_status_problems(task), *_origin_problems(task), *_schedule_problems(task)]
    problems = [
        Problem(field=field, reason=reason, expected=expected, actual=shown(actual), path=joined(path, field))
        for field, reason, expected, actual in found
    ]
    if task.params:
        problems += retry_problems(task, path=path) + timeout_problems(task, path=path)
    # Completed work has been mapped: a link or an archive of a part of a tree drops what it was mapped from.
    if task.params and task.status is not Status.COMPLETED:
        problems += mapping_problems(task, path=path)
    return problems


_Finding = tuple[str, str, object, object]


def _status_problems(task: Task) -> Iterator[_Finding]:
    status = task.status
    if task.result is not None and status is not Status.COMPLETED:
        yield "result", f"must be null while status is {status}", None, task.result
    if task.error is not None and status not in _ERROR_STATES:
        yield "error", f"must be null while status is {status}", None, task.error
    if task.error is None and status in _ERROR_STATES:
        yield "error", f"must say why the task is {status}", "a non-empty string", None
    if task.started_at is not None and status is Status.PENDING:
        yield "started_at", "must be null while status is pending", None, task.started_at.isoformat()
    if task.started_at is None and status is Status.IN_PROGRESS:
        yield "started_at", "must be set when status is in_progress", "a date and time", None
    if task.completed_at is not None and not status.is_terminal:
        yield "completed_at", f"must be null while status is {status}", None, task.completed_at.isoformat()
    if task.completed_at is None and status.is_terminal:
        yield "completed_at", f"must be set when status is {status}", "a date and time", None
    if status is Status.PENDING and task.progress != 0.0:
        yield "progress", "must be 0 while status is pending", 0.0, task.progress
    if status is Status.COMPLETED and task.progress != 1.0:
        yield "progress", "must be 1 when status is completed", 1.0, task.progress


def _origin_problems(task: Task) -> Iterator[_Finding]:
    if task.origin_type in {Origin.LINK, Origin.ARCHIVE}:
        if task.original_task_id is None:
            yield (
                "original_task_id",
                f"must name the source when origin_type is {task.origin_type}",
                "the id of a task",
                None,
            )
        is_archived_step = task.is_frozen and task.status.is_terminal and is_step(task)
        if task.status is not Status.COMPLETED and not is_archived_step:
            yield (
                "status",
                f"must be completed when origin_type is {task.origin_type}",
                "completed",
                task.status.value,
            )
    if task.original_task_id == task.id:
        yield (
            "original_task_id",
            "must not be the task itself",
            "the id of another task",
            task.original_task_id,
        )


def _schedule_problems(task: Task) -> Iterator[_Finding]:
    if task.max_runs is not None and task.run_count > task.max_runs:
        yield "run_count", "must not be more than max_runs", task.max_runs, task.run_count
    if (
        task.schedule_end_at is not None
        and task.next_run_at is not None
        and task.next_run_at > task.schedule_end_at
    ):
        yield (
            "next_run_at",
            "must not be later than schedule_end_at",
            task.schedule_end_at.isoformat(),
            task.next_run_at.isoformat(),
        )
    # "When schedule_enabled is false, scheduling fields MAY be present but are ignored."
    if not task.schedule_enabled:
        return
    for field in ("schedule_type", "schedule_expression"):
        if getattr(task, field) is None:
            yield field, "must be set when schedule_enabled is true", "a value", None
    if task.schedule_type is not None and task.schedule_expression is not None:
        yield from _schedule_findings(task, task.schedule_type, task.schedule_expression)


def _schedule_findings(task: Task, kind: ScheduleType, expression: str) -> Iterator[_Finding]:
    parts: tuple[Callable[[], object], ...] = (
        lambda: parse_expression(kind, expression),
        lambda: zone_named(time_zone(task.params)),
        lambda: catch_up(task.params),
        lambda: overlap(task.params),
    )
    errors = [error for part in parts if (error := _error_of(part))]
    # The whole can only be judged when the parts are sound: the window, a time that no calendar has.
    whole = None if errors else _error_of(lambda: check(schedule_of(task)))
    for error in [*errors, *([whole] if whole else [])]:
        yield error.field, error.reason, error.expected, error.actual


def _error_of(read: Callable[[], object]) -> ScheduleError | None:
    try:
        read()
    except ScheduleError as error:
        return error
    return None
