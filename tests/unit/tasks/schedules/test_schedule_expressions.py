"""Each kind of schedule has one form of expression, and an error says which part of it is wrong."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.batches import batched
from weft.tasks.record import ScheduleType
from weft.tasks.schedules.expressions import Cron, Expression, Interval, Once, parse_expression
from weft.tasks.schedules.timezones import ScheduleError

ONCE, INTERVAL, CRON = ScheduleType.ONCE, ScheduleType.INTERVAL, ScheduleType.CRON
DAILY, WEEKLY, MONTHLY = ScheduleType.DAILY, ScheduleType.WEEKLY, ScheduleType.MONTHLY


def fixed(text: str) -> Cron:
    return Cron(text, is_fixed=True)


WELL_FORMED = [
    (ONCE, "2025-01-20T09:00:00Z", Once(datetime(2025, 1, 20, 9, tzinfo=UTC))),
    (ONCE, "2025-01-20 09:00Z", Once(datetime(2025, 1, 20, 9, tzinfo=UTC))),
    (ONCE, "2025-01-20T09:00:00", Once(datetime(2025, 1, 20, 9))),  # noqa: DTZ001
    (
        ONCE,
        "2025-01-20T09:00:00.25+05:30",
        Once(datetime(2025, 1, 20, 9, 0, 0, 250_000, timezone(timedelta(hours=5, minutes=30)))),
    ),
    (INTERVAL, "1", Interval(timedelta(seconds=1))),
    (INTERVAL, "3600", Interval(timedelta(hours=1))),
    (INTERVAL, "3153600000", Interval(timedelta(days=36_500))),
    (CRON, "0 9 * * 1-5", fixed("0 9 * * 1,2,3,4,5")),
    (DAILY, "00:00", fixed("0 0 * * *")),
    (DAILY, "09:30", fixed("30 9 * * *")),
    (DAILY, "23:59", fixed("59 23 * * *")),
    (WEEKLY, "mon,wed@09:30", fixed("30 9 * * 1,3")),
    (WEEKLY, "SUN@00:05", fixed("5 0 * * 0")),
    (WEEKLY, "Saturday,tuesday@18:00", fixed("0 18 * * 6,2")),
    (MONTHLY, "1,15@09:30", fixed("30 9 1,15 * *")),
    (MONTHLY, "31@00:00", fixed("0 0 31 * *")),
    (MONTHLY, "01@00:00", fixed("0 0 1 * *")),
]


@batched(("kind", "text", "meaning"), WELL_FORMED)
def test_an_expression_of_the_form_of_its_kind_is_read(
    kind: ScheduleType, text: str, meaning: Expression
) -> None:
    assert parse_expression(kind, text) == meaning


MALFORMED = [
    *[
        (ONCE, text, "date and time", "2025-01-20T09:00:00Z")
        for text in (
            *("", "tomorrow", "2025-01-20", "2025-W03-1T09:00", "20250120T090000Z", "2025-01-20x09:00"),
            *("2025-02-30T09:00", "2025-01-20T24:00", "2025-01-20T09:60", "2025-01-20T09:00:60"),
            *("2025-01-20T09:00+99:00", "2025-01-20T09", "0000-01-01T00:00", " 2025-01-20T09:00"),
            *("2025-01-20T09:00\n", "\u0662025-01-20T09:00", "1737363600"),
        )
    ],
    *[
        (INTERVAL, text, "seconds", "a whole number of seconds from 1 to 3153600000")
        for text in (
            *(
                "",
                "0",
                "-5",
                "+5",
                "1.5",
                "1e3",
                " 5 ",
                "5\n",
                "1_000",
                "0x10",
                "007",
                "3153600001",
                "9" * 1000,
            ),
            *("\u0665", "\u00b2", "five", "1h", "nan", "inf"),
        )
    ],
    *[
        (DAILY, text, "time", "HH:MM")
        for text in (
            *(
                "",
                "9:30",
                "09:3",
                "24:00",
                "09:60",
                "09:30:00",
                "0930",
                "9.30",
                " 09:30",
                "09:30\n",
                "09:30Z",
            ),
            *("-1:00", "9:30 AM", "\u0660\u0669:30", "09\uff1a30"),
        )
    ],
    (WEEKLY, "", "days and time", "mon,wed@09:30"),
    (WEEKLY, "mon", "days and time", "mon,wed@09:30"),
    (WEEKLY, "09:30", "days and time", "mon,wed@09:30"),
    (WEEKLY, "mon 09:30", "days and time", "mon,wed@09:30"),
    (WEEKLY, "mon@9:30", "time", "HH:MM"),
    (WEEKLY, "mon@09:30@10:00", "time", "HH:MM"),
    (WEEKLY, "@09:30", "weekday", "mon, tue"),
    (WEEKLY, "mon,@09:30", "weekday", "mon, tue"),
    (WEEKLY, "mon, wed@09:30", "weekday", "no spaces"),
    (WEEKLY, "mon-fri@09:30", "weekday", "listed with commas"),
    (WEEKLY, "1@09:30", "weekday", "mon, tue"),
    (WEEKLY, "mo@09:30", "weekday", "mon, tue"),
    (WEEKLY, "*@09:30", "weekday", "mon, tue"),
    (WEEKLY, "\u017fun@09:30", "weekday", "mon, tue"),
    (WEEKLY, "mon,wed,mon@09:30", "weekday", "each day once"),
    (WEEKLY, "mon,Monday@09:30", "weekday", "each day once"),
    (MONTHLY, "", "days and time", "1,15@09:30"),
    (MONTHLY, "15", "days and time", "1,15@09:30"),
    (MONTHLY, "15@25:00", "time", "HH:MM"),
    (MONTHLY, "@09:30", "day", "1 to 31"),
    (MONTHLY, "0@09:30", "day", "1 to 31"),
    (MONTHLY, "32@09:30", "day", "1 to 31"),
    (MONTHLY, "-1@09:30", "day", "1 to 31"),
    (MONTHLY, "1-5@09:30", "day", "listed with commas"),
    (MONTHLY, "1, 15@09:30", "day", "no spaces"),
    (MONTHLY, "last@09:30", "day", "1 to 31"),
    (MONTHLY, "*@09:30", "day", "1 to 31"),
    (MONTHLY, "\u0661@09:30", "day", "1 to 31"),
    (MONTHLY, "1,1@09:30", "day", "each day once"),
    (MONTHLY, "1,01@09:30", "day", "each day once"),
]


@batched(("kind", "text", "part", "message"), MALFORMED)
def test_a_malformed_expression_is_refused_with_the_name_of_the_wrong_part(
    kind: ScheduleType, text: str, part: str, message: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        parse_expression(kind, text)

    assert (caught.value.code, caught.value.field) == ("invalid-schedule", "schedule_expression")
    assert caught.value.part == part
    assert message in str(caught.value)


@pytest.mark.parametrize("kind", list(ScheduleType))
@pytest.mark.parametrize("unit", ["1", "*", ",", "1,", "* ", "mon,", "a", "\u0665", "@", "/", "-"])
def test_a_very_long_expression_is_refused_with_a_short_message(kind: ScheduleType, unit: str) -> None:
    with pytest.raises(ScheduleError, match="length: expected at most 1024 characters") as caught:
        parse_expression(kind, unit * (100_000 // len(unit)))

    assert len(str(caught.value)) < 250


def test_the_longest_sensible_cron_expression_is_within_the_limit() -> None:
    every_value = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]
    text = " ".join(",".join(map(str, range(low, high + 1))) for low, high in every_value)

    assert parse_expression(CRON, text)
