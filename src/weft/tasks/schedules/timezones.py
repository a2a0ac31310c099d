"""Time zones: their names, and conversion of wall times to UTC.

A wall time is a datetime without an offset, as a local clock shows it. Most wall times occur once; those of a
skipped hour never occur, and those of a repeated hour occur twice.
"""

import difflib
import reprlib
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from weft.errors import RequestError

_short_repr = reprlib.Repr()
# Long enough for a cron expression, short enough for one line of a terminal.
_short_repr.maxstring = _short_repr.maxother = 60


class ScheduleError(RequestError):
    """The schedule of a task is invalid.

    `field` is the field of the task (`schedule_expression`, `params.timezone`, ...), `part` is the
    invalid part of it (`minute`, `weekday`, ...; empty: the whole field).
    """

    code = "invalid-schedule"

    def __init__(self, *, field: str, part: str = "", expected: str, actual: object) -> None:
        location = f"{field}, {part}" if part else field
        wrong = f"expected {expected}, got {_short_repr.repr(actual)}"
        super().__init__(f"{location}: {wrong}")
        self.reason = f"{part}: {wrong}" if part else wrong
        self.field = field
        self.part = part
        self.expected = expected
        self.actual = actual


def bad_expression(part: str, *, expected: str, actual: object) -> ScheduleError:
    """Return the error for one part of `schedule_expression`."""
    return ScheduleError(field="schedule_expression", part=part, expected=expected, actual=actual)


_NAME_LIMIT = 64
"""Well above the longest IANA name (32); keeps the search for a similar name fast."""

# `localtime` depends on the machine; `Factory` means that no zone was configured.
_NOT_ZONES = frozenset({"localtime", "Factory"})


def zone_named(name: str) -> ZoneInfo:
    """Return the time zone with an IANA name. Raise ScheduleError for any other name.

    The name is looked up in a list and never used as a path: `ZoneInfo` itself also accepts names such as
    `right/UTC`, and raises `OSError` for some others.
    """
    # Most schedules are in UTC, and reading the list takes about 60 ms.
    if name == "UTC" or name in _zone_names():
        return ZoneInfo(name)
    raise ScheduleError(field="params.timezone", expected=_expected_zone(name), actual=name)


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NOT_ZONES


def _expected_zone(name: str) -> str:
    names = {known.lower(): known for known in sorted(_zone_names())}
    # Without the limit a very long name would be compared with each of 600 others.
    near = difflib.get_close_matches(name[:_NAME_LIMIT].lower(), names, n=1)
    example = f"(did you mean {names[near[0]]}?)" if near else "such as Europe/Berlin"
    return f"the name of an IANA time zone {example}"


def moments_of(wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Return the times in UTC at which the zone's clocks show `wall`: none, one or two, in order."""
    first, second = _readings(wall, zone)
    if first == second:
        return (first,)
    # If the readings differ, the clocks either skip this time (the first is the later one) or show it twice
    # (they are in order): PEP 495.
    return (first, second) if first < second else ()


def skipped_seconds(wall: datetime, zone: ZoneInfo) -> int:
    """Return the length in seconds of the jump that skips `wall`; 0 if the clocks show it."""
    first, second = _readings(wall, zone)
    return max(0, int((first - second).total_seconds()))


def moment_after_jump(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first time, in UTC, after the jump that skips `wall`."""
    late, early = _readings(wall.replace(microsecond=0), zone)
    offset_after = late.astimezone(zone).utcoffset()

    def has_jumped(seconds: int) -> bool:
        return (early + timedelta(seconds=seconds)).astimezone(zone).utcoffset() == offset_after

    # zoneinfo does not say when a jump happens, but it is between the two readings.
    seconds = bisect_left(range(int((late - early).total_seconds())), True, key=has_jumped)
    return early + timedelta(seconds=seconds)


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the first time in UTC at which the clocks show `wall`, or the end of the jump that skips it."""
    moments = moments_of(wall, zone)
    return moments[0] if moments else moment_after_jump(wall, zone)


def earliest_wall(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return a lower bound of the wall times that the zone's clocks show from `moment` on."""
    return _wall_at_offset(moment, min(_offset(moment, zone), _offset(moment + _DAY, zone)))


def latest_wall(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return an upper bound of the wall times that the zone's clocks show up to `moment`."""
    return _wall_at_offset(moment, max(_offset(moment, zone), _offset(moment - _DAY, zone)))


# Clocks are set back by less than a day, so a change more than a day away does not matter at `moment`.
_DAY = timedelta(days=1)


def _readings(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return `wall` in UTC, read with the offset before and the offset after a change near it."""
    aware = wall.replace(tzinfo=zone)
    return aware.replace(fold=0).astimezone(UTC), aware.replace(fold=1).astimezone(UTC)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _wall_at_offset(moment: datetime, offset: timedelta) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) + offset
