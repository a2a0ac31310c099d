"""The error of a schedule that cannot be read."""

import reprlib

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
