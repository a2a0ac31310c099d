"""What a task's `params` say about its schedule: the time zone, missed runs and overlapping runs."""

from enum import StrEnum
from typing import TypeVar

from weft.tasks.record import JsonObject
from weft.tasks.schedule_errors import ScheduleError


class CatchUp(StrEnum):
    """What becomes of the runs that were due while no scheduler was up."""

    SKIP = "skip"
    ONCE = "once"
    """One run, for the latest of them, stands for all."""
    ALL = "all"
    """Each is made, in order."""


class Overlap(StrEnum):
    """What becomes of a run that is due while an earlier one is not finished."""

    SKIP = "skip"
    ALLOW = "allow"


_Policy = TypeVar("_Policy", CatchUp, Overlap)


def catch_up(params: JsonObject | None) -> CatchUp:
    """The policy for missed runs, `params.catchup`; `once` unless it says otherwise."""
    return _policy(params, "catchup", default=CatchUp.ONCE)


def overlap(params: JsonObject | None) -> Overlap:
    """The policy for overlapping runs, `params.overlap`; `skip` unless it says otherwise."""
    return _policy(params, "overlap", default=Overlap.SKIP)


def waits(params: JsonObject | None, *, has_unfinished_run: bool) -> bool:
    """Whether what is due stays due until a run has ended: all runs are wanted, but one at a time."""
    return has_unfinished_run and overlap(params) is Overlap.SKIP and catch_up(params) is CatchUp.ALL


def time_zone(params: JsonObject | None) -> str:
    """The name in `params.timezone`, not yet looked up; `UTC` unless it says otherwise."""
    name = _param(params, "timezone")
    if name is None:
        return "UTC"
    if not isinstance(name, str):
        raise ScheduleError(
            field="params.timezone", expected="the name of an IANA time zone, as a string", actual=name
        )
    return name


def _policy(params: JsonObject | None, key: str, *, default: _Policy) -> _Policy:
    value = _param(params, key)
    if value is None:
        return default
    choices = type(default)
    # Compared one by one, since a value from JSON may be a list or an object.
    for choice in choices:
        if value == choice.value:
            return choice
    expected = " or ".join(choice.value for choice in choices)
    raise ScheduleError(field=f"params.{key}", expected=expected, actual=value)


def _param(params: JsonObject | None, key: str) -> object:
    # null counts as absent, as everywhere in the record.
    return (params or {}).get(key)
