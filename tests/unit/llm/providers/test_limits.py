"""Places, pauses and turns of a provider."""

import asyncio

import pytest

from tests.virtual_time import run_virtually
from weft.config.sections import ProviderSettings
from weft.llm.errors import ModelError
from weft.llm.providers.rate_limits import ProviderLimits, Timing


def limits(**fields: int) -> ProviderLimits:
    settings = ProviderSettings(**fields)  # type: ignore[arg-type]
    return ProviderLimits("acme", settings, Timing(now=asyncio.get_running_loop().time))


def test_a_pause_holds_everybody_back_until_it_is_over() -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        gate = limits()
        starts: list[float] = []

        async def one() -> None:
            async with gate.ticket(1):
                starts.append(loop.time())

        gate.pause(7.0)
        gate.pause(3.0)
        await asyncio.gather(*(one() for _ in range(20)))
        return starts

    assert run_virtually(scenario()) == [7.0] * 20


def test_a_pause_that_comes_while_somebody_waits_for_the_minute_counts_too() -> None:
    async def scenario() -> list[float]:
        loop = asyncio.get_running_loop()
        gate = limits(requests_per_minute=1)
        starts: list[float] = []

        async def one() -> None:
            async with gate.ticket(1):
                starts.append(loop.time())

        loop.call_later(30, gate.pause, 100.0)
        await asyncio.gather(one(), one())
        return starts

    assert run_virtually(scenario()) == [0.0, 130.0]


def test_a_pause_longer_than_may_be_waited_fails_at_once() -> None:
    async def scenario() -> ModelError:
        gate = limits()
        gate.pause(360)
        with pytest.raises(ModelError) as caught:
            async with gate.ticket(1, longest_wait=60):
                pass
        assert asyncio.get_running_loop().time() == 0.0
        return caught.value

    error = run_virtually(scenario())

    assert (
        error.message
        == "acme asked not to be called for another 360 seconds, but this request may wait only 60"
    )
    assert (error.reason, error.is_transient, error.retry_after_seconds) == ("llm_error", True, 360)


def test_a_pause_has_an_end_whatever_the_provider_asks_for() -> None:
    async def scenario() -> float:
        gate = limits()
        gate.pause(99_999_999_999)
        async with gate.ticket(1):
            return asyncio.get_running_loop().time()

    assert run_virtually(scenario()) == 600.0


def test_who_is_cancelled_gives_the_place_free() -> None:
    async def scenario() -> list[str]:
        gate = limits(concurrency=1)
        order: list[str] = []

        async def one(name: str) -> None:
            async with gate.ticket(1):
                order.append(name)
                await asyncio.sleep(10)

        tasks = {name: asyncio.create_task(one(name)) for name in "abcd"}
        await asyncio.sleep(1)
        tasks["a"].cancel()  # holds the place
        tasks["b"].cancel()  # is the next
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        assert asyncio.get_running_loop().time() == pytest.approx(21)
        return order

    assert run_virtually(scenario()) == ["a", "c", "d"]


def test_tokens_that_were_not_used_let_the_next_through_early() -> None:
    async def scenario() -> float:
        gate = limits(tokens_per_minute=100)

        async def first() -> None:
            async with gate.ticket(90) as ticket:
                await asyncio.sleep(5)
                ticket.settle(10)

        async def second() -> float:
            async with gate.ticket(80):
                return asyncio.get_running_loop().time()

        return (await asyncio.gather(first(), second()))[1]

    assert run_virtually(scenario()) == 5.0


def test_a_request_larger_than_the_limit_goes_alone() -> None:
    async def scenario() -> list[float]:
        gate = limits(tokens_per_minute=100)
        starts = []
        for tokens in (500, 1, 500):
            async with gate.ticket(tokens):
                starts.append(asyncio.get_running_loop().time())
        return starts

    assert run_virtually(scenario()) == [0.0, 60.0, 120.0]
