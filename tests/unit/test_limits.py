"""How long retries wait, and how often they are made."""

import pytest

from weft.limits import Backoff


def test_the_delay_grows_by_the_factor_up_to_the_cap() -> None:
    backoff = Backoff(delay=1.0, factor=3.0, cap=20.0)

    assert [backoff.delay_after(failures) for failures in (1, 2, 3, 4, 10**9)] == [1.0, 3.0, 9.0, 20.0, 20.0]


@pytest.mark.parametrize(("chance", "delay"), [(0.0, 0.9), (0.5, 1.0), (1.0, 1.1)])
def test_jitter_varies_the_delay_up_and_down(chance: float, delay: float) -> None:
    assert Backoff(delay=1.0, jitter=0.1, cap=9.0).delay_after(1, chance) == pytest.approx(delay)
