"""Whatever breaks, and whenever: promises hold, and everything comes to an end once nothing is broken."""

import pytest

from tests.simulation import invariants
from tests.simulation.invariants import violations_of
from tests.simulation.world import Findings, simulate

CHUNK = 10
"""Seeds of one test: enough that few tests are needed, few enough for workers to share them."""


def check(first: int, count: int) -> None:
    """Fail with what is wrong with seeds, and how to see it again."""
    found = {seed: violations_of(seed) for seed in range(first, first + count)}
    told = [
        f"seed {seed} (python -m tests.simulation {seed}):\n  " + "\n  ".join(problems)
        for seed, problems in found.items()
        if problems
    ]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("first", range(0, 300, CHUNK))
def test_promises_hold_whatever_breaks(first: int) -> None:
    check(first, CHUNK)


@pytest.mark.parametrize("seed", [19016])
def test_promises_hold_where_they_once_did_not(seed: int) -> None:
    """19016: a failure that could not be stored was stored after a person had retried the run."""
    check(seed, 1)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 21_000, 500))
def test_promises_hold_in_twenty_thousand_worlds(first: int) -> None:
    check(first, 500)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_seed_has_the_same_course_every_time(seed: int) -> None:
    first, second = simulate(seed), simulate(seed)

    assert first.trace == second.trace
    assert first.events == second.events
    assert (first.watched, first.calls) == (second.watched, second.calls)


def test_a_seed_whose_simulation_breaks_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks_off(seed: int) -> Findings:
        raise AssertionError("everything waits, and nothing will ever happen")

    monkeypatch.setattr(invariants, "simulate", breaks_off)

    with pytest.raises(AssertionError, match=r"python -m tests\.simulation 7[\s\S]*everything waits"):
        check(7, 1)
