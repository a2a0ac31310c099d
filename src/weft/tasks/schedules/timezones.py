"""Time zones: their names, and the moments at which their clocks show a given time.

A wall time is a datetime without an offset, what a clock on the wall shows. A zone's clocks show most
wall times once, those of a skipped hour never, and those of a repeated hour twice.
"""

import difflib
import reprlib
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from weft.errors import RequestError

_SHOWN = reprlib.Repr()
# Long enough for a whole line of cron, short enough for one line of a terminal.
_SHOWN.maxstring = _SHOWN.maxother = 60


class ScheduleError(RequestError):
    """A schedule says nothing weft can follow.

    `field` is the field of the task (`schedule_expression`, `params.timezone`, ...), `part` the part
    of it that is wrong (`minute`, `weekday`, ...; empty: all of it).
    """

    code = "invalid-schedule"

    def __init__(self, *, field: str, part: str = "", expected: str, actual: object) -> None:
        place = f"{field}, {part}" if part else field
        wrong = f"expected {expected}, got {_SHOWN.repr(actual)}"
        super().__init__(f"{place}: {wrong}")
        self.reason = f"{part}: {wrong}" if part else wrong
        self.field = field
        self.part = part
        self.expected = expected
        self.actual = actual


def bad_expression(part: str, *, expected: str, actual: object) -> ScheduleError:
    """The error for one part of `schedule_expression`."""
    return ScheduleError(field="schedule_expression", part=part, expected=expected, actual=actual)


_NAME_LIMIT = 64
"""Far above the longest IANA name (32); keeps the search for a near name short."""

# One is whatever this machine is set to, the other says that nobody has set it.
_NO_PLACES = frozenset({"localtime", "Factory"})


def zone_named(name: str) -> ZoneInfo:
    """The time zone of an IANA name; any other name is a `ScheduleError`.

    The name is looked up in the list and never opened as a path: `ZoneInfo` itself also takes names
    such as `right/UTC`, and answers some others with an `OSError`.
    """
    # Most schedules are in UTC, and the list takes some 60 ms to read.
    if name == "UTC" or name in _zone_names():
        return ZoneInfo(name)
    raise ScheduleError(field="params.timezone", expected=_expected_zone(name), actual=name)


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_PLACES


def _expected_zone(name: str) -> str:
    names = {known.lower(): known for known in sorted(_zone_names())}
    # Without the limit a very long name would be compared with each of 600 others.
    near = difflib.get_close_matches(name[:_NAME_LIMIT].lower(), names, n=1)
    example = f"(did you mean {names[near[0]]}?)" if near else "such as Europe/Berlin"
    return f"the name of an IANA time zone {example}"


def moments_of(wall: datetime, zone: ZoneInfo) -> tuple[datetime, ...]:
    """The moments at which the zone's clocks show `wall`: none, one or two, in order and in UTC."""
    first, second = _readings(wall, zone)
    if first == second:
        return (first,)
    # When the readings differ, the clocks either skip this time (then the first is the later one) or
    # show it twice (then they are in order): PEP 495.
    return (first, second) if first < second else ()


def skipped_seconds(wall: datetime, zone: ZoneInfo) -> int:
    """How many seconds the clocks skip in the jump over `wall`; 0 when they show it."""
    first, second = _readings(wall, zone)
    return max(0, int((first - second).total_seconds()))


def moment_after_jump(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first moment after the jump in which the zone's clocks skip `wall`, in UTC."""
    late, early = _readings(wall.replace(microsecond=0), zone)
    offset_after = late.astimezone(zone).utcoffset()

    def has_jumped(seconds: int) -> bool:
        return (early + timedelta(seconds=seconds)).astimezone(zone).utcoffset() == offset_after

    # zoneinfo does not tell when a jump happens; it lies between the two readings.
    seconds = bisect_left(range(int((late - early).total_seconds())), True, key=has_jumped)
    return early + timedelta(seconds=seconds)


def moment_of(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first moment at which the clocks show `wall`, or the end of the jump that skips it, in UTC."""
    moments = moments_of(wall, zone)
    return moments[0] if moments else moment_after_jump(wall, zone)


def earliest_wall(moment: datetime, zone: ZoneInfo) -> datetime:
    """A wall time that the zone's clocks do not fall back behind, from `moment` on."""
    return _shifted(moment, min(_offset(moment, zone), _offset(moment + _DAY, zone)))


def latest_wall(moment: datetime, zone: ZoneInfo) -> datetime:
    """A wall time that the zone's clocks have not shown more than, up to `moment`."""
    return _shifted(moment, max(_offset(moment, zone), _offset(moment - _DAY, zone)))


# Clocks go back by less than a day, so a change more than a day away cannot reach this side of `moment`.
_DAY = timedelta(days=1)


def _readings(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """`wall` read with the offset before and with the offset after a change near it."""
    aware = wall.replace(tzinfo=zone)
    return aware.replace(fold=0).astimezone(UTC), aware.replace(fold=1).astimezone(UTC)


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _shifted(moment: datetime, offset: timedelta) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None) + offset
