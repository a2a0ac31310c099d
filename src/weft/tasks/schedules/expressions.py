"""Parsing of schedule expressions: times, intervals, cron.

`cronsim` computes the times, but it also accepts extensions (seconds, `L`, `#`, `5/15`), reads `5-5/15` as
`5-59/15`, and reports only "Bad minute". So expressions are parsed here, and cronsim gets a plain form.
"""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, TypeAlias

from msgspec import Struct

from weft.tasks.record import ScheduleType
from weft.tasks.schedules.timezones import ScheduleError, bad_expression


class Cron(Struct, frozen=True):
    """A validated cron expression."""

    text: str
    """The plain form: numbers, lists and terms with `*`."""
    is_fixed: bool
    """Whether it has fixed times of day: neither minute nor hour begins with `*`, as in Debian cron."""


class _Field(Struct, frozen=True):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """The names of the values, starting at `low`."""

    @property
    def expected(self) -> str:
        named = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{named}"


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CRON_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _CRON_WEEKDAYS),
)
_LONGEST_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EXTENSION = re.compile(r"\?|.*#.*|(L|LW|[0-9]+[LW]|[A-Z]{3}L)", re.IGNORECASE | re.DOTALL)


def parse_cron(text: str) -> Cron:
    """Return the validated expression in plain form. Raise ScheduleError unless it has 5 standard fields."""
    parts = _split(text)
    _minute, _hour, days, months, _weekday = (
        _values(field, part) for field, part in zip(_FIELDS, parts, strict=True)
    )
    # Debian cron: if a day field begins with `*`, both must match; otherwise either may match.
    if parts[2].startswith("*") or parts[4].startswith("*"):
        _check_possible(days, months, actual=f"day {parts[2]} of month {parts[3]}")
    plain = " ".join(_plain(field, part) for field, part in zip(_FIELDS, parts, strict=True))
    return Cron(plain, is_fixed=not parts[0].startswith("*") and not parts[1].startswith("*"))


def _split(text: str) -> list[str]:
    macro = text.strip().lower()
    if macro.startswith("@"):
        written_out = _MACROS.get(macro)
        instead = f"{written_out!r} for {macro}" if written_out else "the times as five fields"
        raise bad_expression("macro", expected=f"five cron fields; write {instead}", actual=text)
    parts = re.split(r"[ \t]+", text.strip(" \t"))
    if len(parts) != len(_FIELDS):
        names = ", ".join(field.name for field in _FIELDS)
        hint = "; there is no field for seconds or years" if len(parts) > len(_FIELDS) else ""
        raise bad_expression(
            "fields", expected=f"5 cron fields ({names}), not {len(parts)}{hint}", actual=text
        )
    return parts


def _check_possible(days: frozenset[int], months: frozenset[int], *, actual: str) -> None:
    # Weekdays need no check: over the years every date falls on each of them, even 29 February.
    longest = max(_LONGEST_MONTH_DAYS[month - 1] for month in months)
    if min(days) > longest:
        expected = f"a day that exists, 1-{longest} in the given month"
        raise bad_expression("day of month", expected=expected, actual=actual)


def _plain(field: _Field, part: str) -> str:
    """Return the field for cronsim. A leading `*` is kept, since it decides how the day fields combine."""
    terms = part.split(",")
    return ",".join(
        term if term.startswith("*") else ",".join(map(str, _term_values(field, term))) for term in terms
    )


def _values(field: _Field, part: str) -> frozenset[int]:
    terms = part.split(",")
    if "" in terms:
        raise _bad(field, part, expected=f"{field.expected} on each side of a comma")
    return frozenset(value for term in terms for value in _term_values(field, term))


def _term_values(field: _Field, term: str) -> range:
    span, slash, step_text = term.partition("/")
    step = _step(field, term, step_text) if slash else 1
    if span == "*":
        return range(field.low, field.high + 1, step)
    first_text, dash, last_text = span.partition("-")
    first = _number(field, term, first_text)
    if slash and not dash:
        raise _bad(field, term, expected=f"* or a range before the step, such as {first}-{field.high}/{step}")
    last = _number(field, term, last_text) if dash else first
    if last < first:
        sunday = "; Sunday is 7 at the end of a range" if field.names is _CRON_WEEKDAYS else ""
        raise _bad(field, term, expected=f"a range that begins with its lower end{sunday}")
    return range(first, last + 1, step)


def _step(field: _Field, term: str, text: str) -> int:
    # A longer step is legal in cron, but `*/90` minutes runs every hour, which nobody intends.
    longest = field.high - field.low + 1
    step = int(text) if re.fullmatch("[0-9]+", text) else 0
    if not 1 <= step <= longest:
        raise _bad(field, term, expected=f"a step of 1-{longest}")
    return step


def _number(field: _Field, term: str, text: str) -> int:
    if text.lower() in field.names:
        return field.low + field.names.index(text.lower())
    if re.fullmatch("[0-9]+", text) and field.low <= int(text) <= field.high:
        return int(text)
    hint = ""
    if _EXTENSION.fullmatch(text):
        hint = " (L, W, # and ? are not part of standard cron: list the days, or write *)"
    raise _bad(field, term, expected=f"{field.expected}{hint}")


def _bad(field: _Field, actual: str, *, expected: str) -> ScheduleError:
    return bad_expression(field.name, expected=expected, actual=actual)


EXPRESSION_LIMIT = 1024
"""Maximum length; a cron expression that lists every value of every field has under 500 characters."""

INTERVAL_LIMIT_SECONDS = 100 * 365 * 24 * 3600
"""A hundred years; a longer interval is a typing error."""

_ISO_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]([01][0-9]|2[0-3]):[0-9]{2}(:[0-9]{2}([.,][0-9]{1,6})?)?"
    r"(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
# In the order of cron, where Sunday is 0.
_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_WEEKDAY_NUMBERS = {name[:size]: number for number, name in enumerate(_WEEKDAYS) for size in (3, len(name))}


class Once(Struct, frozen=True):
    """A single time; a wall time if it has no offset."""

    at: datetime


class Interval(Struct, frozen=True):
    """A fixed interval."""

    step: timedelta


Expression: TypeAlias = Once | Interval | Cron


def parse_expression(kind: ScheduleType, text: str) -> Expression:
    """Parse an expression. Raise ScheduleError unless it has the form of its kind."""
    if len(text) > EXPRESSION_LIMIT:
        expected = f"at most {EXPRESSION_LIMIT} characters, not {len(text)}"
        raise bad_expression("length", expected=expected, actual=text)
    return _parse(kind, text)


# A scheduler parses the same few expressions repeatedly.
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
    # Python accepts more forms (`2025-W03`, any letter for the T), and still more in newer versions.
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
    """Return the first two cron fields for `HH:MM`."""
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
    """Return the days as a cron list. Reject a repeated day, which is probably a typing error."""
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
