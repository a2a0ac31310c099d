"""Cron expressions: the five standard fields, checked before anything is computed from them.

`cronsim` finds the times, but it also takes extensions (seconds, `L`, `#`, `5/15`), reads `5-5/15` as
`5-59/15`, and says only "Bad minute". So an expression is read here, and cronsim gets a plain form of it.
"""

import re
from typing import Final

from msgspec import Struct

from weft.tasks.schedule_errors import ScheduleError, bad_expression


class Cron(Struct, frozen=True):
    """A cron expression that has been checked."""

    text: str
    """In plain form: numbers, lists and terms with `*`."""
    is_fixed: bool
    """Whether it names fixed times of day: neither minute nor hour begin with `*`, as Debian cron has it."""


class _Field(Struct, frozen=True):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    """The names of the values, from `low` on."""

    @property
    def expected(self) -> str:
        named = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{named}"


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _WEEKDAYS),
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
    """The expression in checked, plain form; anything else than five standard fields is an error."""
    parts = _split(text)
    _minute, _hour, days, months, _weekday = (
        _values(field, part) for field, part in zip(_FIELDS, parts, strict=True)
    )
    if _both_days_must_match(parts):
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


def _both_days_must_match(parts: list[str]) -> bool:
    # Debian cron: a day field that begins with a star narrows the other one; otherwise either may match.
    return parts[2].startswith("*") or parts[4].startswith("*")


def _check_possible(days: frozenset[int], months: frozenset[int], *, actual: str) -> None:
    # Weekdays need no look: over the years every date falls on each of them, 29 February too.
    longest = max(_LONGEST_MONTH_DAYS[month - 1] for month in months)
    if min(days) > longest:
        expected = f"a day that exists, 1-{longest} in the given month"
        raise bad_expression("day of month", expected=expected, actual=actual)


def _plain(field: _Field, part: str) -> str:
    """The field for cronsim; a star stays in front, for it decides how the two day fields combine."""
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
        sunday = "; Sunday is 7 at the end of a range" if field.names is _WEEKDAYS else ""
        raise _bad(field, term, expected=f"a range that begins with its lower end{sunday}")
    return range(first, last + 1, step)


def _step(field: _Field, term: str, text: str) -> int:
    # A longer step is legal in cron, but `*/90` minutes runs every hour: nobody who writes it means that.
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
