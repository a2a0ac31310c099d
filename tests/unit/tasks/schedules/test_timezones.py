"""Time zones are found by their IANA names, and know which moments a wall time stands for."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.batches import batched
from weft.tasks.schedules.timezones import ScheduleError, moment_of, moments_of, skipped_seconds, zone_named


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12"])
def test_an_iana_name_gives_its_zone(name: str) -> None:
    assert zone_named(name).key == name


@batched(
    ("name", "suggestion"),
    [
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("Europe/Berlin ", "did you mean Europe/Berlin?"),
        ("Europe/Berlin/", "did you mean Europe/Berlin?"),
        ("Europe//Berlin", "did you mean Europe/Berlin?"),
        ("../Europe/Berlin", "did you mean Europe/Berlin?"),
        ("right/Europe/Berlin", "did you mean Europe/Berlin?"),
        ("Berlin", "did you mean Europe/Berlin?"),
        ("New_York", "did you mean America/New_York?"),
        ("utc", "did you mean UTC?"),
        ("", "such as Europe/Berlin"),
        ("Europe", "IANA time zone"),
        ("../x", "IANA time zone"),
        ("/etc/localtime", "IANA time zone"),
        ("localtime", "IANA time zone"),
        ("posixrules", "IANA time zone"),
        ("Factory", "IANA time zone"),
        ("zone.tab", "IANA time zone"),
        ("+02:00", "IANA time zone"),
        ("a\0b", "IANA time zone"),
        ("\ud800", "IANA time zone"),
        ("x" * 100_000, "IANA time zone"),
        ("Europe/" * 10_000, "IANA time zone"),
    ],
)
def test_any_other_name_is_refused_with_the_nearest_one(name: str, suggestion: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        zone_named(name)

    assert (caught.value.field, caught.value.actual) == ("params.timezone", name)
    assert suggestion in caught.value.expected
    assert len(str(caught.value)) < 250


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "shown", "moments"),
    [
        ("Europe/Berlin", "2025-03-30 01:59", ["2025-03-30 00:59"]),
        ("Europe/Berlin", "2025-03-30 02:30", []),
        ("Europe/Berlin", "2025-03-30 03:00", ["2025-03-30 01:00"]),
        ("Europe/Berlin", "2025-10-26 02:30", ["2025-10-26 00:30", "2025-10-26 01:30"]),
        ("Australia/Lord_Howe", "2025-04-06 01:45", ["2025-04-05 14:45", "2025-04-05 15:15"]),
        ("Pacific/Apia", "2011-12-30 12:00", []),
    ],
)
def test_clocks_show_a_wall_time_never_once_or_twice(zone: str, shown: str, moments: list[str]) -> None:
    assert moments_of(wall(shown), ZoneInfo(zone)) == tuple(map(utc, moments))


@pytest.mark.parametrize(
    ("zone", "skipped", "jump", "length"),
    [
        ("Europe/Berlin", "2025-03-30 02:00:00", "2025-03-30 01:00", timedelta(hours=1)),
        ("Europe/Berlin", "2025-03-30 02:59:59.999999", "2025-03-30 01:00", timedelta(hours=1)),
        ("Australia/Lord_Howe", "2025-10-05 02:15", "2025-10-04 15:30", timedelta(minutes=30)),
        ("Africa/Monrovia", "1972-01-07 00:10", "1972-01-07 00:44:30", timedelta(minutes=44, seconds=30)),
        ("Pacific/Apia", "2011-12-30 12:00", "2011-12-30 10:00", timedelta(days=1)),
    ],
)
def test_a_skipped_wall_time_stands_for_the_end_of_the_jump(
    zone: str, skipped: str, jump: str, length: timedelta
) -> None:
    assert moment_of(wall(skipped), ZoneInfo(zone)) == utc(jump)
    assert skipped_seconds(wall(skipped), ZoneInfo(zone)) == length.total_seconds()


def test_a_wall_time_that_is_shown_twice_stands_for_its_first_showing() -> None:
    berlin = ZoneInfo("Europe/Berlin")

    assert moment_of(wall("2025-10-26 02:30"), berlin) == utc("2025-10-26 00:30")
    assert skipped_seconds(wall("2025-10-26 02:30"), berlin) == 0
