"""Schedules against slow and simple models of them, and on arbitrary text."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from weft.tasks.record import ScheduleType
from weft.tasks.schedules.schedule import Schedule, check, count_between, due_between, next_due, previous_due
from weft.tasks.schedules.timezones import ScheduleError

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

# Each zone with noon (UTC) of a few days on which its clocks change.
CLOCK_CHANGES = [
    ("UTC", "2025-03-30"),
    ("Europe/Berlin", "2025-03-30"),
    ("Europe/Berlin", "2025-10-26"),
    ("America/New_York", "2025-03-09"),
    ("America/New_York", "2025-11-02"),
    ("Australia/Lord_Howe", "2025-04-06"),
    ("Australia/Lord_Howe", "2025-10-05"),
    ("America/Havana", "2025-03-09"),
    ("America/Havana", "2025-11-02"),
    ("Africa/Casablanca", "2025-02-23"),
    ("Africa/Casablanca", "2025-04-06"),
    ("Antarctica/Troll", "2025-03-30"),
    ("Antarctica/Troll", "2025-10-26"),
    ("Asia/Kolkata", "2025-03-30"),
    ("Asia/Pyongyang", "2015-08-15"),
    ("America/Caracas", "2016-05-01"),
    ("Pacific/Apia", "2011-12-30"),
]
FIELDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


class Field(NamedTuple):
    """A field of cron together with the values it stands for, so that no test has to parse it."""

    text: str
    values: frozenset[int]


def terms(low: int, high: int) -> st.SearchStrategy[Field]:
    number = st.integers(low, high)
    step = st.integers(1, high - low + 1)
    return st.one_of(
        st.just(Field("*", frozenset(range(low, high + 1)))),
        number.map(lambda value: Field(str(value), frozenset({value}))),
        step.map(lambda step: Field(f"*/{step}", frozenset(range(low, high + 1, step)))),
        st.tuples(number, number, step).map(
            lambda parts: Field(
                f"{min(parts[:2])}-{max(parts[:2])}/{parts[2]}",
                frozenset(range(min(parts[:2]), max(parts[:2]) + 1, parts[2])),
            )
        ),
    )


def fields(low: int, high: int) -> st.SearchStrategy[Field]:
    return st.lists(terms(low, high), min_size=1, max_size=3).map(
        lambda parts: Field(
            ",".join(part.text for part in parts), frozenset().union(*(part.values for part in parts))
        )
    )


Cron = tuple[Field, Field, Field, Field, Field]
crons: st.SearchStrategy[Cron] = st.tuples(*(fields(low, high) for low, high in FIELDS))
clock_changes = st.sampled_from(CLOCK_CHANGES)
# Frequent expressions, so that a window of days holds due times.
frequent_crons: st.SearchStrategy[Cron] = st.tuples(
    fields(0, 59), fields(0, 23), st.just(Field("*", frozenset(range(1, 32)))), fields(1, 12), fields(0, 7)
)


def schedule(cron: Cron, zone: str = "UTC") -> Schedule:
    return Schedule(type=ScheduleType.CRON, expression=" ".join(field.text for field in cron), zone=zone)


def matches(cron: Cron, wall: datetime) -> bool:
    """Whether the expression names this minute, straight from the manual page."""
    minute, hour, day, month, weekday = cron
    if wall.minute not in minute.values:
        return False
    by_day = wall.day in day.values
    by_weekday = wall.isoweekday() % 7 in weekday.values or wall.isoweekday() in weekday.values
    is_narrowed = day.text.startswith("*") or weekday.text.startswith("*")
    is_day = by_day and by_weekday if is_narrowed else by_day or by_weekday
    return is_day and wall.hour in hour.values and wall.month in month.values


def minutes(first: datetime, last: datetime) -> Iterator[datetime]:
    while first <= last:
        yield first
        first += MINUTE


def debian(cron: Cron, zone: str, first: datetime, last: datetime) -> Iterator[datetime]:
    """Yield the times at which Debian's cron, which wakes every minute, would start the job."""
    is_fixed = not cron[0].text.startswith("*") and not cron[1].text.startswith("*")
    place = ZoneInfo(zone)
    # Debian keeps a virtual time that waits while clocks go back, and catches up when they jump.
    virtual = (first - 6 * HOUR).astimezone(place).replace(tzinfo=None) - MINUTE
    for moment in minutes(first - 6 * HOUR, last):
        wall = moment.astimezone(place).replace(tzinfo=None)
        missed = minutes(virtual + MINUTE if wall - virtual <= 3 * HOUR else wall, wall)
        due = any(matches(cron, minute) for minute in missed) if is_fixed else matches(cron, wall)
        virtual = max(virtual, wall)
        if due and moment >= first:
            yield moment


def asked(
    step: Callable[[datetime], datetime | None], start: datetime, *, last: datetime
) -> Iterator[datetime]:
    """Yield times by asking for the next one again and again, up to `last`."""
    due = step(start)
    while due is not None and (start < due <= last or start > due >= last):
        yield due
        due = step(due)


# The list of zones is read in whichever example comes first, and a slow machine takes its time over that.
unhurried = settings(deadline=None)
# The models look at every minute.
slow_model = settings(deadline=None, max_examples=examples(50))


@slow_model
@given(crons, st.datetimes(datetime(1999, 1, 1), datetime(2101, 1, 1)))  # noqa: DTZ001
def test_in_utc_cron_is_due_at_exactly_the_minutes_it_names(cron: Cron, start: datetime) -> None:
    first = start.replace(second=0, microsecond=0, tzinfo=UTC)
    last = first + 2 * DAY
    expected = tuple(minute for minute in minutes(first, last) if matches(cron, minute))
    of = schedule(cron)
    try:
        check(of)
    except ScheduleError:  # a date that does not exist
        assert not expected
        return

    assert due_between(of, after=first - MINUTE, until=last, limit=10_000) == expected


@slow_model
@given(frequent_crons, clock_changes)
def test_around_clock_changes_cron_is_due_when_debian_would_start_it(
    cron: Cron, change: tuple[str, str]
) -> None:
    zone, day = change
    noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=UTC)
    first, last = noon - DAY, noon + DAY
    of = schedule(cron, zone)
    expected = list(debian(cron, zone, first, last))

    assert list(asked(lambda after: next_due(of, after=after), first - MINUTE, last=last)) == expected
    backwards = list(asked(lambda before: previous_due(of, before=before), last + MINUTE, last=first))
    assert backwards[::-1] == expected


moments = st.datetimes(datetime(1950, 1, 1), datetime(2150, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
near_changes = st.builds(
    lambda change, seconds: (
        datetime.fromisoformat(change[1]).replace(tzinfo=UTC) + timedelta(seconds=seconds)
    ),
    clock_changes,
    st.floats(-172_800, 172_800),
)
times_of_day = st.times().map(lambda time: f"{time:%H:%M}")
weekdays = st.lists(
    st.sampled_from(["mon", "TUE", "wednesday", "Thu", "fri", "sat", "sun"]), min_size=1, unique=True
)
days = st.lists(st.integers(1, 31).map(str), min_size=1, max_size=5, unique=True)
expressions = st.one_of(
    moments.map(lambda moment: (ScheduleType.ONCE, moment.isoformat())),
    st.integers(1, 10**9).map(lambda seconds: (ScheduleType.INTERVAL, str(seconds))),
    frequent_crons.map(lambda cron: (ScheduleType.CRON, schedule(cron).expression)),
    times_of_day.map(lambda time: (ScheduleType.DAILY, time)),
    st.tuples(weekdays, times_of_day).map(
        lambda parts: (ScheduleType.WEEKLY, f"{','.join(parts[0])}@{parts[1]}")
    ),
    st.tuples(days, times_of_day).map(
        lambda parts: (ScheduleType.MONTHLY, f"{','.join(parts[0])}@{parts[1]}")
    ),
)
windows = st.tuples(st.none() | moments, st.none() | moments).map(
    lambda window: window if None in window else (min(filter(None, window)), max(filter(None, window)))
)
schedules = st.builds(
    lambda expression, zone, window, anchor: Schedule(
        type=expression[0],
        expression=expression[1],
        zone=zone,
        start_at=window[0],
        end_at=window[1],
        anchor=anchor,
    ),
    expressions,
    st.sampled_from(sorted({zone for zone, _ in CLOCK_CHANGES})),
    windows,
    st.none() | moments,
)


@unhurried
@given(schedules, near_changes | moments)
def test_due_times_increase_within_the_window(of: Schedule, after: datetime) -> None:
    due = due_between(of, after=after, until=after + 36_500 * DAY, limit=5)

    assert all(earlier < later for earlier, later in pairwise((after, *due)))
    assert all(of.start_at is None or of.start_at <= time for time in due)
    assert all(of.end_at is None or time <= of.end_at for time in due)
    assert all(time.tzinfo is UTC for time in due)


@unhurried
@given(schedules, near_changes | moments)
def test_no_due_time_lies_between_a_moment_and_the_next_due_time(of: Schedule, after: datetime) -> None:
    due = next_due(of, after=after)
    earlier = previous_due(of, before=due) if due else None

    assert earlier is None or earlier <= after


@unhurried
@given(schedules, near_changes | moments)
def test_no_due_time_lies_between_the_previous_due_time_and_a_moment(of: Schedule, before: datetime) -> None:
    due = previous_due(of, before=before)
    later = next_due(of, after=due) if due else None

    assert later is None or later >= before


@unhurried
@given(schedules, near_changes, st.integers(0, 20), st.timedeltas(timedelta(0), 10 * DAY))
def test_due_between_is_asking_for_the_next_one_again_and_again(
    of: Schedule, after: datetime, limit: int, span: timedelta
) -> None:
    found = due_between(of, after=after, until=after + span, limit=limit)
    one_by_one = asked(lambda moment: next_due(of, after=moment), after, last=after + span)

    assert found == tuple(islice(one_by_one, limit))
    assert count_between(of, after=after, until=after + span, limit=limit) == len(found)


cron_like = st.lists(st.text("0123456789*,-/LW#? janfebmonsun@:", max_size=8), max_size=7).map(" ".join)


@unhurried
@given(
    st.sampled_from(ScheduleType),
    st.text(max_size=40) | cron_like,
    st.just("UTC") | st.text(max_size=40) | st.text("EuropeBrlin/._-+UTC0\0", max_size=20),
    st.datetimes(timezones=st.timezones()),
)
@example(ScheduleType.CRON, "0 0 29 2 */7", "Pacific/Kiritimati", datetime.max.replace(tzinfo=UTC))
@example(ScheduleType.ONCE, "9999-12-31T23:59", "America/New_York", datetime.min.replace(tzinfo=UTC))
def test_whatever_the_text_there_is_an_answer_or_a_schedule_error(
    kind: ScheduleType, expression: str, zone: str, moment: datetime
) -> None:
    of = Schedule(type=kind, expression=expression, zone=zone, anchor=moment)
    try:
        check(of)
    except ScheduleError as error:
        assert error.field in {"schedule_expression", "params.timezone"}  # noqa: PT017
        return
    for due in (next_due(of, after=moment), previous_due(of, before=moment)):
        assert due is None or due.tzinfo is UTC
