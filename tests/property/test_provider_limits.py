"""However requests come, are cancelled and take longer or shorter: no limit of a provider is exceeded."""

import asyncio
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.virtual_time import run_virtually
from weft.config.sections import ProviderSettings
from weft.llm.providers.rate_limits import ProviderLimits, Timing

MINUTE = 60.0


class Planned(NamedTuple):
    """A request: when it comes, what it is taken for, what it really takes, and whether it is called off."""

    at: float
    expected: int
    share: float
    seconds: float
    patience: float | None

    @property
    def real(self) -> int:
        return int(self.expected * self.share)


class Ran(NamedTuple):
    """A request that was let through."""

    number: int
    start: float
    end: float
    tokens: int


PLANS = st.lists(
    st.builds(
        Planned,
        # Eighths of seconds, which floats add and subtract exactly: the count below has no margin.
        at=st.integers(0, 960).map(lambda eighths: eighths / 8),
        expected=st.integers(0, 150),
        share=st.sampled_from([0.0, 0.3, 1.0]),
        seconds=st.sampled_from([0.0, 0.5, 10.0, 90.0]),
        patience=st.sampled_from([None, None, 0.0, 5.0, 70.0]),
    ),
    min_size=1,
    max_size=25,
).map(lambda plans: sorted(plans, key=lambda plan: plan.at))

LIMITS = st.builds(
    ProviderSettings,
    concurrency=st.integers(1, 5),
    requests_per_minute=st.none() | st.integers(1, 8),
    tokens_per_minute=st.none() | st.integers(1, 200),
)


async def simulated(plans: list[Planned], settings: ProviderSettings) -> list[Ran]:
    """Return the requests that were admitted, in order of time."""
    loop = asyncio.get_running_loop()
    limits = ProviderLimits("p", settings, Timing(now=loop.time))
    ran: list[Ran] = []

    async def one(number: int, plan: Planned) -> None:
        async with limits.ticket(plan.expected) as ticket:
            start = loop.time()
            try:
                await asyncio.sleep(plan.seconds)
                ticket.settle(plan.real)
                tokens = plan.real
            except asyncio.CancelledError:
                tokens = plan.expected  # who is called off does not know, and nothing is given back
                raise
            finally:
                ran.append(Ran(number, start, loop.time(), tokens))

    tasks: list[asyncio.Task[None]] = []
    for number, plan in enumerate(plans):
        await asyncio.sleep(max(0.0, plan.at - loop.time()))
        tasks.append(asyncio.create_task(one(number, plan)))
        if plan.patience is not None:
            loop.call_later(plan.patience, tasks[-1].cancel)
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 100_000)
    assert not limits._queue
    assert not limits._open
    return sorted(ran, key=lambda one: (one.start, one.number))


@settings(deadline=None)
@given(PLANS, LIMITS)
def test_no_limit_is_exceeded_in_any_minute_and_everybody_gets_through(
    plans: list[Planned], settings: ProviderSettings
) -> None:
    ran = run_virtually(simulated(plans, settings))

    for one in ran:
        beside = [other for other in ran if other.start <= one.start < other.end]
        assert len(beside) <= settings.concurrency
        # Brute force: the minute that ends with this start.
        window = [other for other in ran if one.start - MINUTE < other.start <= one.start]
        if settings.requests_per_minute is not None:
            assert len(window) <= settings.requests_per_minute
        if settings.tokens_per_minute is not None:
            tokens = sum(other.tokens for other in window)
            assert tokens <= settings.tokens_per_minute or len([o for o in window if o.tokens]) == 1
    patient = {number for number, plan in enumerate(plans) if plan.patience is None}
    assert patient <= {one.number for one in ran}


@settings(deadline=None)
@given(PLANS, LIMITS)
def test_requests_are_let_through_in_the_order_they_came(
    plans: list[Planned], settings: ProviderSettings
) -> None:
    ran = run_virtually(simulated(plans, settings))

    assert [one.number for one in ran] == sorted(one.number for one in ran)
