"""A schedule is due at the times of its expression, in its zone, within its window."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.batches import batched
from weft.ids import TaskId
from weft.tasks.record import ScheduleType, Status, Task
from weft.tasks.schedules.schedule import Schedule, check, due_between, next_due, previous_due, schedule_of
from weft.tasks.schedules.timezones import ScheduleError

ONCE, INTERVAL, CRON = ScheduleType.ONCE, ScheduleType.INTERVAL, ScheduleType.CRON
DAILY, WEEKLY, MONTHLY = ScheduleType.DAILY, ScheduleType.WEEKLY, ScheduleType.MONTHLY

MINUTE = timedelta(minutes=1)
TICK = timedelta.resolution


def at(text: str) -> datetime:
    """Read a time such as `2025-01-20 09:00`, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(*texts: str) -> tuple[datetime, ...]:
    return tuple(map(at, texts))


def schedule(kind: ScheduleType, expression: str, zone: str = "UTC", **fields: Any) -> Schedule:
    return Schedule(type=kind, expression=expression, zone=zone, **fields)


def due_until(last: datetime, of: Schedule, *, after: datetime) -> tuple[datetime, ...]:
    return due_between(of, after=after, until=last, limit=10_000)


def assert_due(of: Schedule, expected: tuple[datetime, ...], *, after: datetime) -> None:
    """Check the due times from `after` to the last expected one, and the same times backwards."""
    assert due_until(expected[-1], of, after=after) == expected
    backwards = [expected[-1]]
    while (due := previous_due(of, before=backwards[-1])) is not None and due > after:
        backwards.append(due)
    assert tuple(reversed(backwards)) == expected


DUE = [
    # kind, expression, zone, after, due times
    (ONCE, "2025-01-20T09:00:00Z", "UTC", "2025-01-01", ["2025-01-20 09:00"]),
    (ONCE, "2025-01-20T09:00:00", "Europe/Berlin", "2025-01-01", ["2025-01-20 08:00"]),
    (ONCE, "2025-01-20T09:00:00-05:00", "Europe/Berlin", "2025-01-01", ["2025-01-20 14:00"]),
    (ONCE, "2025-03-30T02:30:15", "Europe/Berlin", "2025-01-01", ["2025-03-30 01:00"]),
    (ONCE, "2025-10-26T02:30:15", "Europe/Berlin", "2025-01-01", ["2025-10-26 00:30:15"]),
    (INTERVAL, "3600", "UTC", "2025-01-20 00:30", ["2025-01-20 01:00", "2025-01-20 02:00"]),
    (CRON, "0 9 * * 1-5", "UTC", "2025-01-17 09:00", ["2025-01-20 09:00", "2025-01-21 09:00"]),
    (CRON, "*/20 8 * * *", "Asia/Kolkata", "2025-01-01", ["2025-01-01 02:30", "2025-01-01 02:50"]),
    # Neither day field begins with a star: either may match.
    (CRON, "0 0 13 * fri", "UTC", "2025-06-01", ["2025-06-06", "2025-06-13", "2025-06-20"]),
    (CRON, "0 0 30 2 mon", "UTC", "2025-01-31", ["2025-02-03", "2025-02-10"]),
    # One of them begins with a star: both must match.
    (CRON, "0 0 */2 * fri", "UTC", "2025-06-01", ["2025-06-13", "2025-06-27", "2025-07-11"]),
    (CRON, "0 0 29 2 *", "UTC", "2025-01-01", ["2028-02-29", "2032-02-29"]),
    (CRON, "0 0 29 2 *", "UTC", "2096-02-29", ["2104-02-29"]),
    (CRON, "0 0 29 2 */7", "UTC", "2088-02-29", ["2128-02-29"]),
    (DAILY, "09:30", "Europe/Berlin", "2025-03-28 09:00", ["2025-03-29 08:30", "2025-03-30 07:30"]),
    (WEEKLY, "mon,wed@09:30", "UTC", "2025-01-20 09:30", ["2025-01-22 09:30", "2025-01-27 09:30"]),
    (WEEKLY, "Sunday@23:00", "America/New_York", "2025-01-20", ["2025-01-20 04:00", "2025-01-27 04:00"]),
    (MONTHLY, "1,15@09:30", "UTC", "2025-01-15 09:30", ["2025-02-01 09:30", "2025-02-15 09:30"]),
    (MONTHLY, "31@00:00", "UTC", "2025-01-31", ["2025-03-31", "2025-05-31", "2025-07-31", "2025-08-31"]),
]


@batched(("kind", "expression", "zone", "after", "due"), DUE)
def test_a_schedule_is_due_at_the_times_of_its_expression(
    kind: ScheduleType, expression: str, zone: str, after: str, due: list[str]
) -> None:
    assert_due(schedule(kind, expression, zone), times(*due), after=at(after))


CLOCK_CHANGES = [
    # Berlin, 30 March 2025: 02:00 becomes 03:00. A skipped time is due right after the jump.
    ("30 2 * * *", "Europe/Berlin", "2025-03-29 12:00", ["2025-03-30 01:00", "2025-03-31 00:30"]),
    ("0 2,3 * * *", "Europe/Berlin", "2025-03-29 12:00", ["2025-03-30 01:00", "2025-03-31 00:00"]),
    ("0,30 2 * * *", "Europe/Berlin", "2025-03-29 12:00", ["2025-03-30 01:00", "2025-03-31 00:00"]),
    # With a star it follows the clocks, which never show 02:xx on that day.
    ("*/30 2 * * *", "Europe/Berlin", "2025-03-29 12:00", ["2025-03-31 00:00", "2025-03-31 00:30"]),
    ("30 * * * *", "Europe/Berlin", "2025-03-30 00:00", ["2025-03-30 00:30", "2025-03-30 01:30"]),
    # Berlin, 26 October 2025: 03:00 becomes 02:00. A repeated time is due once, at its first showing.
    ("30 2 * * *", "Europe/Berlin", "2025-10-25 12:00", ["2025-10-26 00:30", "2025-10-27 01:30"]),
    ("30 2 * * *", "Europe/Berlin", "2025-10-26 01:00", ["2025-10-27 01:30"]),
    ("30 2 * * *", "Europe/Berlin", "2025-10-26 01:15", ["2025-10-27 01:30"]),
    (
        "30 * * * *",
        "Europe/Berlin",
        "2025-10-26 00:00",
        ["2025-10-26 00:30", "2025-10-26 01:30", "2025-10-26 02:30"],
    ),
    (
        "*/30 2 * * *",
        "Europe/Berlin",
        "2025-10-25 12:00",
        ["2025-10-26 00:00", "2025-10-26 00:30", "2025-10-26 01:00", "2025-10-26 01:30"],
    ),
    # New York, 9 March and 2 November 2025.
    ("30 2 * * *", "America/New_York", "2025-03-09 00:00", ["2025-03-09 07:00", "2025-03-10 06:30"]),
    ("30 1 * * *", "America/New_York", "2025-11-02 00:00", ["2025-11-02 05:30", "2025-11-03 06:30"]),
    # Lord Howe changes by half an hour: 5 October 2025, 02:00 becomes 02:30; 6 April, 02:00 becomes 01:30.
    ("15 2 * * *", "Australia/Lord_Howe", "2025-10-04 00:00", ["2025-10-04 15:30", "2025-10-05 15:15"]),
    ("45 1 * * *", "Australia/Lord_Howe", "2025-04-05 00:00", ["2025-04-05 14:45", "2025-04-06 15:15"]),
    ("* 2 * 4 *", "Australia/Lord_Howe", "2025-04-05 15:00", ["2025-04-05 15:30", "2025-04-05 15:31"]),
    ("*/5 2 * 10 *", "Australia/Lord_Howe", "2025-10-04 15:00", ["2025-10-04 15:30", "2025-10-04 15:35"]),
    # Havana changes at midnight: 9 March 2025 begins at 01:00.
    ("0 0 * * *", "America/Havana", "2025-03-08 12:00", ["2025-03-09 05:00", "2025-03-10 04:00"]),
    ("0 */6 * * *", "America/Havana", "2025-03-09 00:00", ["2025-03-09 10:00", "2025-03-09 16:00"]),
    # Casablanca leaves its summer time for Ramadan: 23 February to 6 April 2025.
    ("30 2 * * *", "Africa/Casablanca", "2025-02-22 12:00", ["2025-02-23 01:30", "2025-02-24 02:30"]),
    ("30 2 * * *", "Africa/Casablanca", "2025-04-05 12:00", ["2025-04-06 02:00", "2025-04-07 01:30"]),
    # Samoa had no 30 December 2011: a day that does not exist is not made up for.
    ("0 9 * * *", "Pacific/Apia", "2011-12-29 00:00", ["2011-12-29 19:00", "2011-12-30 19:00"]),
    ("0 9 30 * *", "Pacific/Apia", "2011-12-01 00:00", ["2012-01-29 19:00"]),
    ("0 */12 * * *", "Pacific/Apia", "2011-12-29 12:00", ["2011-12-29 22:00", "2011-12-30 10:00"]),
    # No change at all.
    ("30 2 * * *", "Asia/Kolkata", "2025-03-29 12:00", ["2025-03-29 21:00", "2025-03-30 21:00"]),
]


@batched(("expression", "zone", "after", "due"), CLOCK_CHANGES)
def test_when_clocks_change_cron_is_due_as_in_debian(
    expression: str, zone: str, after: str, due: list[str]
) -> None:
    assert_due(schedule(CRON, expression, zone), times(*due), after=at(after))


@pytest.mark.parametrize(
    ("kind", "expression"),
    [(DAILY, "02:30"), (WEEKLY, "sun@02:30"), (MONTHLY, "30@02:30"), (CRON, "30 2 30 3 *")],
)
def test_every_kind_of_fixed_time_is_due_right_after_the_jump_that_skips_it(
    kind: ScheduleType, expression: str
) -> None:
    assert next_due(schedule(kind, expression, "Europe/Berlin"), after=at("2025-03-29 12:00")) == at(
        "2025-03-30 01:00"
    )


def test_an_interval_does_not_notice_that_clocks_change() -> None:
    daily = schedule(INTERVAL, "86400", "Europe/Berlin", start_at=at("2025-03-28 08:30"))

    assert_due(
        daily, times("2025-03-29 08:30", "2025-03-30 08:30", "2025-03-31 08:30"), after=at("2025-03-28 08:30")
    )


def test_an_interval_is_first_due_at_its_start() -> None:
    hourly = schedule(INTERVAL, "3600", start_at=at("2025-01-20 09:10"), anchor=at("2025-01-20 08:59"))

    assert_due(hourly, times("2025-01-20 09:10", "2025-01-20 10:10"), after=at("2020-01-01"))


def test_an_interval_without_a_start_is_first_due_one_step_after_the_task_was_made() -> None:
    hourly = schedule(INTERVAL, "3600", anchor=at("2025-01-20 08:59:30.000250"))

    assert_due(
        hourly, times("2025-01-20 09:59:30.000250", "2025-01-20 10:59:30.000250"), after=at("2020-01-01")
    )


def test_an_interval_without_start_and_task_counts_from_the_unix_epoch() -> None:
    assert next_due(schedule(INTERVAL, "7200"), after=at("2025-01-20 09:10")) == at("2025-01-20 10:00")
    assert next_due(schedule(INTERVAL, "7200"), after=at("1950-01-01")) == at("1970-01-01 02:00")


@pytest.mark.parametrize(
    "of",
    [schedule(ONCE, "2025-01-20T09:00Z"), schedule(INTERVAL, "3600"), schedule(DAILY, "09:00")],
    ids=lambda of: of.type,
)
def test_next_is_later_and_previous_is_earlier_than_the_moment_given(of: Schedule) -> None:
    due = at("2025-01-20 09:00")

    assert next_due(of, after=due - TICK) == due
    assert next_due(of, after=due) != due
    assert previous_due(of, before=due + TICK) == due
    assert previous_due(of, before=due) != due


def test_once_is_never_due_again() -> None:
    once = schedule(ONCE, "2025-01-20T09:00Z")

    assert next_due(once, after=at("2025-01-20 09:00")) is None
    assert previous_due(once, before=at("2025-01-20 09:00")) is None


def test_the_window_includes_its_first_and_its_last_moment() -> None:
    daily = schedule(DAILY, "09:00", start_at=at("2025-01-20 09:00"), end_at=at("2025-01-22 09:00"))
    all_three = times("2025-01-20 09:00", "2025-01-21 09:00", "2025-01-22 09:00")

    assert due_until(at("2030-01-01"), daily, after=at("2020-01-01")) == all_three
    assert previous_due(daily, before=at("2030-01-01")) == all_three[-1]
    assert previous_due(daily, before=all_three[0]) is None


def test_outside_the_window_nothing_is_due() -> None:
    daily = schedule(DAILY, "09:00", start_at=at("2025-01-20 09:01"), end_at=at("2025-01-21 08:59"))

    assert next_due(daily, after=at("2020-01-01")) is None
    assert previous_due(daily, before=at("2030-01-01")) is None


@pytest.mark.parametrize("expression", ["2025-01-19T09:00Z", "2025-01-23T09:00Z"])
def test_a_single_time_outside_the_window_is_not_due(expression: str) -> None:
    once = schedule(ONCE, expression, start_at=at("2025-01-20"), end_at=at("2025-01-22"))

    assert next_due(once, after=at("2020-01-01")) is None
    assert previous_due(once, before=at("2030-01-01")) is None


def test_a_window_of_a_single_moment_may_be_due() -> None:
    only = at("2025-01-20 09:00")

    assert next_due(schedule(DAILY, "09:00", start_at=only, end_at=only), after=at("2020-01-01")) == only


def test_a_window_that_ends_before_it_starts_is_refused() -> None:
    backwards = schedule(DAILY, "09:00", start_at=at("2025-01-20"), end_at=at("2025-01-19"))

    with pytest.raises(
        ScheduleError, match="schedule_start_at: expected a time no later than schedule_end_at"
    ):
        check(backwards)


NAIVE = datetime(2025, 1, 20)  # noqa: DTZ001


@pytest.mark.parametrize(
    "of",
    [
        schedule(INTERVAL, "60", start_at=NAIVE),
        schedule(INTERVAL, "60", end_at=NAIVE),
        schedule(INTERVAL, "60", anchor=NAIVE),
    ],
)
def test_a_bound_without_an_offset_is_refused(of: Schedule) -> None:
    with pytest.raises(ScheduleError, match="expected a time with an offset"):
        check(of)


@pytest.mark.parametrize(("max_runs", "run_count"), [(0, 0), (3, 3), (3, 4)])
def test_when_the_runs_are_used_up_nothing_is_due_any_more(max_runs: int, run_count: int) -> None:
    used_up = schedule(DAILY, "09:00", max_runs=max_runs, run_count=run_count)

    assert next_due(used_up, after=at("2025-01-20")) is None
    assert due_until(at("2026-01-01"), used_up, after=at("2025-01-20")) == ()


def test_catching_up_takes_no_more_than_the_runs_left() -> None:
    two_left = schedule(DAILY, "09:00", max_runs=5, run_count=3)

    assert due_until(at("2026-01-01"), two_left, after=at("2025-01-20")) == times(
        "2025-01-20 09:00", "2025-01-21 09:00"
    )


@pytest.mark.parametrize(("limit", "count"), [(-1, 0), (0, 0), (1, 1), (3, 3), (9, 4)])
def test_catching_up_takes_the_first_due_times_up_to_the_limit(limit: int, count: int) -> None:
    daily = schedule(DAILY, "09:00")
    found = due_between(daily, after=at("2025-01-20 09:00"), until=at("2025-01-24 09:00"), limit=limit)

    assert found == tuple(at("2025-01-21 09:00") + timedelta(days=day) for day in range(count))


def test_moments_may_come_with_any_offset_and_go_out_in_utc() -> None:
    tokyo = timezone(timedelta(hours=9))
    due = next_due(schedule(DAILY, "09:00"), after=datetime(2025, 1, 20, 18, 0, tzinfo=tokyo))

    assert due == at("2025-01-21 09:00")
    assert due.tzinfo is UTC


def test_a_moment_without_an_offset_is_a_mistake_of_the_program() -> None:
    with pytest.raises(ValueError, match="offset"):
        next_due(schedule(DAILY, "09:00"), after=NAIVE)
    with pytest.raises(ValueError, match="offset"):
        previous_due(schedule(DAILY, "09:00"), before=NAIVE)


FAR_AWAY = [
    moment.replace(tzinfo=timezone(timedelta(hours=hours)))
    for moment in (datetime.min, datetime(1, 1, 2), datetime(9999, 12, 31), datetime.max)  # noqa: DTZ001, DTZ901
    for hours in (-14, 0, 14)
]


@batched("moment", FAR_AWAY, ids=str)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        (INTERVAL, "3153600000"),
        (CRON, "* * * * *"),
        (CRON, "0 0 29 2 *"),
        (DAILY, "23:59"),
        (MONTHLY, "31@00:00"),
    ],
)
def test_at_both_ends_of_the_calendar_there_is_an_answer(
    kind: ScheduleType, expression: str, zone: str, moment: datetime
) -> None:
    of = schedule(kind, expression, zone)
    early = moment.year < 5000

    assert (next_due(of, after=moment) is not None) == early
    assert (previous_due(of, before=moment) is not None) == (not early)
    check(schedule(kind, expression, zone, start_at=moment, end_at=moment, anchor=moment))


@pytest.mark.parametrize(
    ("kind", "expression"), [(CRON, "0 23 31 12 *"), (CRON, "0 0 29 2 *"), (INTERVAL, "3153600000")]
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_when_the_calendar_ends_before_the_next_due_time_nothing_is_due(
    kind: ScheduleType, expression: str, zone: str
) -> None:
    assert next_due(schedule(kind, expression, zone), after=at("9999-12-29")) is None


@pytest.mark.parametrize("expression", ["0 0 1 1 *", "0 0 29 2 *"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_when_the_calendar_begins_after_the_previous_due_time_nothing_was_due(
    expression: str, zone: str
) -> None:
    assert previous_due(schedule(CRON, expression, zone), before=at("0001-01-04")) is None


@pytest.mark.parametrize(
    "expression", ["0001-01-01T00:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59", "9999-12-31T23:59-14:00"]
)
@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Pacific/Kiritimati"])
def test_a_single_time_at_the_ends_of_the_calendar_is_refused(expression: str, zone: str) -> None:
    with pytest.raises(ScheduleError, match="expected a time from 0001-01-03 to 9999-12-29"):
        check(schedule(ONCE, expression, zone))


def a_task(**fields: Any) -> Task:
    identifier = TaskId("2f0c8d1e-9f55-4a5f-8f2c-0b8f3f1d7a10")
    return Task(id=identifier, name="report", status=Status.PENDING, **fields)


def test_a_task_without_type_or_expression_has_no_schedule() -> None:
    assert schedule_of(a_task()) is None
    assert schedule_of(a_task(schedule_type=DAILY)) is None
    assert schedule_of(a_task(schedule_expression="09:00")) is None


def test_the_schedule_of_a_task_is_made_from_its_fields() -> None:
    task = a_task(
        schedule_type=WEEKLY,
        schedule_expression="mon@09:00",
        schedule_start_at=at("2025-01-01"),
        schedule_end_at=at("2026-01-01"),
        max_runs=10,
        run_count=2,
        created_at=at("2024-12-24"),
        params={"timezone": "Europe/Berlin", "catchup": "all"},
    )

    assert schedule_of(task) == schedule(
        WEEKLY,
        "mon@09:00",
        "Europe/Berlin",
        start_at=at("2025-01-01"),
        end_at=at("2026-01-01"),
        max_runs=10,
        run_count=2,
        anchor=at("2024-12-24"),
    )


def test_a_task_with_a_time_zone_that_is_no_string_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"params\.timezone"):
        schedule_of(a_task(schedule_type=DAILY, schedule_expression="09:00", params={"timezone": 2}))


def test_every_question_about_a_malformed_schedule_is_refused() -> None:
    moment = at("2025-01-20")
    for malformed in (schedule(DAILY, "9:30"), schedule(DAILY, "09:30", "Europe/Berln")):
        with pytest.raises(ScheduleError):
            check(malformed)
        with pytest.raises(ScheduleError):
            next_due(malformed, after=moment)
        with pytest.raises(ScheduleError):
            previous_due(malformed, before=moment)
        with pytest.raises(ScheduleError):
            due_between(malformed, after=moment, until=moment + MINUTE, limit=1)
