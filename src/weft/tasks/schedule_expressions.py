"""What a schedule expression says: a time, an interval, or wall times as cron."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from weft.tasks.cron import Cron, parse_cron
from weft.tasks.record import ScheduleType
from weft.tasks.schedule_errors import bad_expression

EXPRESSION_LIMIT = 1024
"""Characters; a cron expression that lists every value of every field has fewer than 500."""

INTERVAL_LIMIT_SECONDS = 100 * 365 * 24 * 3600
"""A hundred years; a longer one is a slip of the keyboard."""

_ISO_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.,][0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
# In the order of cron's numbers: Sunday is 0.
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_WEEKDAY_NUMBERS = {name[:size]: number for number, name in enumerate(_WEEKDAYS) for size in (3, len(name))}


class Once(Struct, frozen=True):
    """A single time; without an offset it is a wall time."""

    at: datetime


class Interval(Struct, frozen=True):
    """A fixed step."""

    step: timedelta


Expression: TypeAlias = Once | Interval | Cron


def parse_expression(kind: ScheduleType, text: str) -> Expression:
    """What the expression says; one that is not of the form of its kind is a `ScheduleError`."""
    if len(text) > EXPRESSION_LIMIT:
        expected = f"at most {EXPRESSION_LIMIT} characters, not {len(text)}"
        raise bad_expression("length", expected=expected, actual=text)
    return _parse(kind, text)


# A scheduler asks the same few expressions again and again.
@lru_cache(maxsize=1024)
def _parse(kind: ScheduleType, text: str) -> Expression:
    match kind:
        case ScheduleType.ONCE:
            return Once(_datetime(text))
        case ScheduleType.INTERVAL:
            return Interval(timedelta(seconds=_interval_seconds(text)))
        case ScheduleType.CRON:
            return parse_cron(text)
        case ScheduleType.DAILY:
            return parse_cron(f"{_minute_and_hour(text)} * * *")
        case ScheduleType.WEEKLY:
            days, time = _days_and_time(text, form="WEEKDAY@HH:MM, such as mon,wed@09:30")
            return parse_cron(f"{_minute_and_hour(time)} * * {_numbers(days, 'weekday', _weekday)}")
        case ScheduleType.MONTHLY:
            days, time = _days_and_time(text, form="DAY@HH:MM, such as 1,15@09:30")
            return parse_cron(f"{_minute_and_hour(time)} {_numbers(days, 'day', _day)} * *")


def _datetime(text: str) -> datetime:
    expected = "an ISO 8601 date and time such as 2025-01-20T09:00:00Z"
    # Python reads more forms than it should (`2025-W03`, any letter for the T), and more in newer versions.
    if not _ISO_DATETIME.fullmatch(text):
        raise bad_expression("date and time", expected=expected, actual=text)
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:  # 30 February, an offset of 99 hours
        raise bad_expression("date and time", expected=f"{expected} ({error})", actual=text) from None


def _interval_seconds(text: str) -> int:
    seconds = int(text) if re.fullmatch(r"[1-9][0-9]*", text) else 0
    if not 1 <= seconds <= INTERVAL_LIMIT_SECONDS:
        expected = (
            f"a whole number of seconds from 1 to {INTERVAL_LIMIT_SECONDS}, in digits only, such as 3600"
        )
        raise bad_expression("seconds", expected=expected, actual=text)
    return seconds


def _minute_and_hour(text: str) -> str:
    """The first two fields of cron for `HH:MM`."""
    found = _TIME.fullmatch(text)
    if not found:
        raise bad_expression("time", expected="HH:MM from 00:00 to 23:59, such as 09:30", actual=text)
    return f"{int(found[2])} {int(found[1])}"


def _days_and_time(text: str, *, form: str) -> tuple[str, str]:
    days, at, time = text.partition("@")
    if not at:
        raise bad_expression("days and time", expected=form, actual=text)
    return days, time


def _numbers(days: str, part: str, read: Callable[[str], int]) -> str:
    """The days as a list for cron; the same day twice is taken for a slip and refused."""
    numbers: list[int] = []
    for day in days.split(","):
        number = read(day)
        if number in numbers:
            raise bad_expression(part, expected="each day once", actual=days)
        numbers.append(number)
    return ",".join(map(str, numbers))


def _weekday(text: str) -> int:
    number = _WEEKDAY_NUMBERS.get(text.lower())
    if number is None:
        expected = "mon, tue, wed, thu, fri, sat or sun, listed with commas and no spaces"
        raise bad_expression("weekday", expected=expected, actual=text)
    return number


def _day(text: str) -> int:
    if not re.fullmatch(r"0?[1-9]|[12][0-9]|3[01]", text):
        raise bad_expression(
            "day", expected="days from 1 to 31, listed with commas and no spaces", actual=text
        )
    return int(text)
