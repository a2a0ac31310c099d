"""What `params` say of a schedule is read strictly, with a default for what is absent."""

from typing import Any

import pytest

from weft.tasks.schedules.schedule import CatchUp, Overlap, catch_up, overlap, time_zone, waits
from weft.tasks.schedules.timezones import ScheduleError


@pytest.mark.parametrize("params", [None, {}, {"catchup": None, "overlap": None, "timezone": None}])
def test_what_is_absent_has_its_default(params: dict[str, Any] | None) -> None:
    assert (catch_up(params), overlap(params), time_zone(params)) == (CatchUp.ONCE, Overlap.SKIP, "UTC")


def test_every_policy_can_be_chosen_by_its_name() -> None:
    assert [catch_up({"catchup": name}) for name in ("skip", "once", "all")] == list(CatchUp)
    assert [overlap({"overlap": name}) for name in ("skip", "allow")] == list(Overlap)
    assert time_zone({"timezone": "Europe/Berlin"}) == "Europe/Berlin"


@pytest.mark.parametrize("value", ["", "Once", "never", "allow", 1, True, [], {}, ["once"]])
def test_any_other_catch_up_policy_is_refused_with_the_choices(value: object) -> None:
    with pytest.raises(ScheduleError, match=r"params\.catchup: expected skip or once or all, got ") as caught:
        catch_up({"catchup": value})

    assert caught.value.actual == value


@pytest.mark.parametrize("value", ["", "Skip", "once", 0, False, [], {}])
def test_any_other_overlap_policy_is_refused_with_the_choices(value: object) -> None:
    with pytest.raises(ScheduleError, match=r"params\.overlap: expected skip or allow, got "):
        overlap({"overlap": value})


@pytest.mark.parametrize("value", [1, True, 0.5, [], ["UTC"], {"name": "UTC"}])
def test_a_time_zone_that_is_not_a_string_is_refused(value: object) -> None:
    with pytest.raises(ScheduleError, match=r"params\.timezone: expected the name of an IANA time zone"):
        time_zone({"timezone": value})


@pytest.mark.parametrize("catchup", CatchUp)
@pytest.mark.parametrize("overlapping", Overlap)
@pytest.mark.parametrize("has_unfinished_run", [False, True])
def test_only_all_runs_one_at_a_time_wait_and_only_for_an_unfinished_one(
    catchup: CatchUp, overlapping: Overlap, has_unfinished_run: bool
) -> None:
    params = {"catchup": catchup.value, "overlap": overlapping.value}
    expected = (catchup, overlapping, has_unfinished_run) == (CatchUp.ALL, Overlap.SKIP, True)

    assert waits(params, has_unfinished_run=has_unfinished_run) is expected
