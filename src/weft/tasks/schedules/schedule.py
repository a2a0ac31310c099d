"""Schedules: when a task is due, in which time zone, and what happens to missed runs.

All functions are pure and never read the clock. Times may have any UTC offset as arguments, and are returned
in UTC. A malformed schedule raises `ScheduleError`.

`cronsim` computes wall times, and this module converts them to UTC. cronsim's own handling of zones is not
sufficient: within a repeated hour it returns a time in the past, and where clocks are set back by half an
hour it loses times.

When clocks change, this follows Debian cron. Fixed times are due once: those of a skipped hour right after
the jump, those of a repeated hour the first time. Expressions whose minute or hour begins with `*` follow
the clocks: nothing is due in a skipped hour, and everything is due twice in a repeated hour.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import islice
from typing import TypeVar
from zoneinfo import ZoneInfo

from cronsim import CronSim
from msgspec import Struct

from weft.errors import RequestError
from weft.tasks.record import JsonObject, ScheduleType, Task, evolve
from weft.tasks.schedules.expressions import Cron, Expression, Interval, Once, parse_expression
from weft.tasks.schedules.timezones import (
    ScheduleError,
    bad_expression,
    earliest_wall,
    latest_wall,
    moment_after_jump,
    moment_of,
    moments_of,
    skipped_seconds,
    zone_named,
)


class CatchUp(StrEnum):
    """What happens to runs that were due while no scheduler was running."""

    SKIP = "skip"
    ONCE = "once"
    """One run is made, for the latest due time."""
    ALL = "all"
    """All runs are made, in order."""


class Overlap(StrEnum):
    """What happens to a run that is due while an earlier one is unfinished."""

    SKIP = "skip"
    ALLOW = "allow"


_Policy = TypeVar("_Policy", CatchUp, Overlap)


def catch_up(params: JsonObject | None) -> CatchUp:
    """Return the policy for missed runs, `params.catchup`; the default is `once`."""
    return _policy(params, "catchup", default=CatchUp.ONCE)


def overlap(params: JsonObject | None) -> Overlap:
    """Return the policy for overlapping runs, `params.overlap`; the default is `skip`."""
    return _policy(params, "overlap", default=Overlap.SKIP)


def waits(params: JsonObject | None, *, has_unfinished_run: bool) -> bool:
    """Return whether a due run must wait for an unfinished one: if all missed runs are made, one by one."""
    return has_unfinished_run and overlap(params) is Overlap.SKIP and catch_up(params) is CatchUp.ALL


def time_zone(params: JsonObject | None) -> str:
    """Return the name in `params.timezone`, which is not validated here; the default is `UTC`."""
    name = (params or {}).get("timezone")
    if name is None:
        return "UTC"
    if not isinstance(name, str):
        raise ScheduleError(
            field="params.timezone", expected="the name of an IANA time zone, as a string", actual=name
        )
    return name


def _policy(params: JsonObject | None, key: str, *, default: _Policy) -> _Policy:
    value = (params or {}).get(key)
    if value is None:  # null means absent, as everywhere in the record
        return default
    choices = type(default)
    # Compared one by one, since a value from JSON may be unhashable.
    for choice in choices:
        if value == choice.value:
            return choice
    expected = " or ".join(choice.value for choice in choices)
    raise ScheduleError(field=f"params.{key}", expected=expected, actual=value)


_CALENDAR_START = datetime.min.replace(tzinfo=UTC)
_CALENDAR_END = datetime.max.replace(tzinfo=UTC)
# Nothing is due in the first and last two days of the calendar, where a local time may be out of range.
_EARLIEST = _CALENDAR_START + timedelta(days=2)
_LATEST = _CALENDAR_END - timedelta(days=2)
_TICK = timedelta.resolution
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Schedule(Struct, frozen=True, kw_only=True):
    """When a task is due: an expression, a window, and a maximum number of runs."""

    type: ScheduleType
    expression: str
    zone: str = "UTC"
    start_at: datetime | None = None
    """The earliest due time; intervals count from here."""
    end_at: datetime | None = None
    """The latest due time."""
    max_runs: int | None = None
    run_count: int = 0
    anchor: datetime | None = None
    """The origin of an interval without `start_at`; its first due time is one interval later."""


class NoSchedule(RequestError):
    """The task has no schedule."""

    code = "no-schedule"

    def __init__(self, *, task_id: str) -> None:
        super().__init__(f"task {task_id} has no schedule (schedule_type and schedule_expression)")
        self.task_id = task_id


def schedule_of(task: Task) -> Schedule | None:
    """Return the task's schedule, enabled or not; None if it has none."""
    if task.schedule_type is None or task.schedule_expression is None:
        return None
    return Schedule(
        type=task.schedule_type,
        expression=task.schedule_expression,
        zone=time_zone(task.params),
        start_at=task.schedule_start_at,
        end_at=task.schedule_end_at,
        max_runs=task.max_runs,
        run_count=task.run_count,
        anchor=task.created_at,
    )


def check(schedule: Schedule | None) -> None:
    """Raise ScheduleError if the schedule is invalid."""
    if schedule is not None:
        _plan(schedule)


def next_due(schedule: Schedule, *, after: datetime) -> datetime | None:
    """Return the first due time after `after`; None if the schedule has ended."""
    plan = _plan(schedule)
    return None if _runs_left(schedule) == 0 else _next(plan, _utc(after))


def previous_due(schedule: Schedule, *, before: datetime) -> datetime | None:
    """Return the last due time before `before`, whatever the run count; None if it does not exist."""
    plan = _plan(schedule)
    before = min(_utc(before), plan.end + _TICK)
    if before <= plan.start:
        return None
    try:
        due = _last_before(plan, before)
    except OverflowError:  # the calendar begins after the last due time
        return None
    return due if due is not None and due >= plan.start else None


def due_between(schedule: Schedule, *, after: datetime, until: datetime, limit: int) -> tuple[datetime, ...]:
    """Return the due times after `after` and up to `until`, in order, at most `limit` or the runs left."""
    plan = _plan(schedule)
    runs_left = _runs_left(schedule)
    wanted = limit if runs_left is None else min(limit, runs_left)
    return tuple(islice(_times(plan, _utc(after), _utc(until)), max(0, wanted)))


def count_between(schedule: Schedule, *, after: datetime, until: datetime, limit: int) -> int:
    """Return the number of due times after `after` and up to `until`, whatever the run count.

    Counting takes about 30 us per due time and stops at `limit`.
    """
    return sum(1 for _ in islice(_times(_plan(schedule), _utc(after), _utc(until)), limit))


def planned(task: Task, *, after: datetime) -> Task:
    """Return the task with `next_run_at` computed; it is None while the schedule is disabled."""
    schedule = schedule_of(task) if task.schedule_enabled else None
    due = None if schedule is None else next_due(schedule, after=after)
    return task if due == task.next_run_at else evolve(task, next_run_at=due)


class _Plan(Struct, frozen=True):
    """A validated schedule, as values to compute with."""

    expression: Expression
    zone: ZoneInfo
    start: datetime
    end: datetime
    anchor: datetime
    first_step: int
    """The first due time of an interval, in steps after the anchor: 0 or 1."""


def _plan(schedule: Schedule) -> _Plan:
    zone = zone_named(schedule.zone)
    expression = parse_expression(schedule.type, schedule.expression)
    if isinstance(expression, Once):
        expression = Once(_once_moment(expression.at, zone, text=schedule.expression))
    start = _bound("schedule_start_at", schedule.start_at)
    end = _bound("schedule_end_at", schedule.end_at)
    if start and end and start > end:
        expected = f"a time no later than schedule_end_at ({end.isoformat()})"
        raise ScheduleError(field="schedule_start_at", expected=expected, actual=start.isoformat())
    return _Plan(
        expression=expression,
        zone=zone,
        start=max(start or _EARLIEST, _EARLIEST),
        end=min(end or _LATEST, _LATEST),
        anchor=start or _bound("created_at", schedule.anchor) or _EPOCH,
        first_step=0 if start else 1,
    )


def _times(plan: _Plan, after: datetime, until: datetime) -> Iterator[datetime]:
    due = _next(plan, after)
    while due is not None and due <= until:
        yield due
        due = _next(plan, due)


def _next(plan: _Plan, after: datetime) -> datetime | None:
    after = max(after, plan.start - _TICK)
    if after >= plan.end:
        return None
    try:
        due = _first_after(plan, after)
    except OverflowError:  # the calendar ends before the next due time
        return None
    return due if due is not None and due <= plan.end else None


def _first_after(plan: _Plan, after: datetime) -> datetime | None:
    match plan.expression:
        case Once(at):
            return at if at > after else None
        case Interval(step):
            steps = (after - plan.anchor) // step + 1
            return plan.anchor + max(steps, plan.first_step) * step
        case Cron() as cron:
            return _first_due_after(cron, plan.zone, after)


def _last_before(plan: _Plan, before: datetime) -> datetime | None:
    match plan.expression:
        case Once(at):
            return at if at < before else None
        case Interval(step):
            steps = -((plan.anchor - before) // step) - 1
            return plan.anchor + steps * step if steps >= plan.first_step else None
        case Cron() as cron:
            return _last_due_before(cron, plan.zone, before)


def _runs_left(schedule: Schedule) -> int | None:
    """Return how often the schedule may still fire; None: no limit."""
    return None if schedule.max_runs is None else max(0, schedule.max_runs - schedule.run_count)


def _once_moment(at: datetime, zone: ZoneInfo, *, text: str) -> datetime:
    try:
        moment = at.astimezone(UTC) if at.tzinfo else moment_of(at, zone)
    except OverflowError:  # out of range in UTC
        moment = _CALENDAR_END
    if not _EARLIEST <= moment <= _LATEST:
        expected = f"a time from {_EARLIEST.date()} to {_LATEST.date()}"
        raise bad_expression("date and time", expected=expected, actual=text)
    return moment


def _bound(field: str, moment: datetime | None) -> datetime | None:
    if moment is not None and moment.utcoffset() is None:
        raise ScheduleError(field=field, expected="a time with an offset from UTC", actual=moment.isoformat())
    return None if moment is None else _utc(moment)


def _utc(moment: datetime) -> datetime:
    """Return the time in UTC; if it is out of range, the start or end of the calendar."""
    if moment.utcoffset() is None:
        raise ValueError(f"expected a time with an offset from UTC, got {moment.isoformat()}")
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _CALENDAR_START if moment.year == _CALENDAR_START.year else _CALENDAR_END


_LONGEST_DST_JUMP_SECONDS = 3 * 3600
"""Debian cron treats a longer jump as a corrected clock: skipped times are not made up for.

Such a jump occurs when a zone skips a day, such as 30 December 2011 in Samoa."""


def _first_due_after(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime | None:
    """Return the first due time after `after`, in UTC. Raise OverflowError if the calendar ends before.

    Wall times are in order, and so are their first occurrences. Only a second occurrence can be later than
    the first occurrence of the next wall time, so the loop keeps it until it can compare the two. cronsim
    stops after 50 years without a match; the longest gap of a possible expression is 40 years (29 February on
    one weekday, with 2100 in between).
    """
    second_occurrence: datetime | None = None
    for wall in CronSim(cron.text, earliest_wall(after, zone)):
        moments = _due_moments(cron, wall, zone)
        if moments and moments[0] > after:
            return min(moments[0], second_occurrence or moments[0])
        if second_occurrence is None and moments and moments[-1] > after:
            second_occurrence = moments[-1]
    return second_occurrence


def _last_due_before(cron: Cron, zone: ZoneInfo, before: datetime) -> datetime | None:
    """Return the last due time before `before`, in UTC. Raise OverflowError if the calendar starts later."""
    first_occurrence: datetime | None = None
    for wall in CronSim(cron.text, latest_wall(before, zone), reverse=True):
        moments = _due_moments(cron, wall, zone)
        if moments and moments[-1] < before:
            return max(moments[-1], first_occurrence or moments[-1])
        if first_occurrence is None and moments and moments[0] < before:
            first_occurrence = moments[0]
    return first_occurrence


def _due_moments(cron: Cron, wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    moments = moments_of(wall, zone)
    if not cron.is_fixed:
        return moments
    if moments:
        return moments[:1]
    if skipped_seconds(wall, zone) > _LONGEST_DST_JUMP_SECONDS:
        return ()
    return (moment_after_jump(wall, zone),)
