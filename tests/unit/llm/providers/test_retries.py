"""Making requests again: only after what may pass, not too soon, and not for too long."""

import asyncio
from collections.abc import Callable

import pytest

from tests.model_payloads import MODEL_OF, a_payload, served_models
from tests.model_server import ModelServer, cuts, fails, says, sends
from weft.llm.errors import ModelError
from weft.llm.events import ModelEvent, RequestRetried
from weft.llm.providers.rate_limits import Timing
from weft.llm.providers.retries import REQUEST_BACKOFF, Retries, seconds_left, time_limit


class Slept:
    """A sleep that takes no time and is written down; a clock that it moves."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def timing(self, chance: float = 1.0) -> Timing:
        return Timing(now=lambda: self.now, sleep=self.sleep, chance=lambda: chance)


def passing(**facts: float) -> ModelError:
    return ModelError("llm_error", "busy", is_transient=True, **facts)  # type: ignore[arg-type]


async def tried(
    errors: list[ModelError], slept: Slept, *, retries: int = 4, may_retry: Callable[[], bool] = lambda: True
) -> str:
    left = list(errors)

    async def request() -> str:
        if left:
            raise left.pop(0)
        return "done"

    policy = Retries("p:m", retries=retries, most_seconds=300, timing=slept.timing())
    return await policy.run(request, may_retry=may_retry, on_refused=lambda seconds: None)


async def test_the_delay_doubles_up_to_a_limit_and_is_a_random_part_of_that() -> None:
    slept = Slept()

    assert await tried([passing() for _ in range(9)], slept, retries=9) == "done"

    assert slept.delays == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert REQUEST_BACKOFF.delay_after(3, chance=0.5) == 1.0


async def test_what_the_provider_asks_for_is_waited_at_least() -> None:
    slept = Slept()

    await tried([passing(retry_after_seconds=20.0)], slept)

    assert slept.delays == [20.5]


async def test_a_permanent_error_is_not_tried_again() -> None:
    slept = Slept()

    with pytest.raises(ModelError, match="no key"):
        await tried([ModelError("configuration_error", "no key")], slept)

    assert slept.delays == []


async def test_the_last_error_is_raised_when_all_tries_are_used_up() -> None:
    slept = Slept()

    with pytest.raises(ModelError, match="busy"):
        await tried([passing() for _ in range(9)], slept, retries=2)

    assert len(slept.delays) == 2


async def test_an_answer_that_is_none_is_asked_for_once_more_only() -> None:
    slept = Slept()
    senseless = [ModelError("protocol_error", "HTML", is_transient=True) for _ in range(5)]

    with pytest.raises(ModelError, match="HTML"):
        await tried(senseless, slept)

    assert len(slept.delays) == 1


async def test_what_has_been_delivered_is_not_asked_for_again() -> None:
    slept = Slept()

    with pytest.raises(ModelError, match="busy"):
        await tried([passing()], slept, may_retry=lambda: False)

    assert slept.delays == []


async def test_a_wait_longer_than_the_caller_has_time_fails_at_once() -> None:
    slept = Slept()

    with time_limit(10.0), pytest.raises(ModelError) as caught:
        await tried([passing(retry_after_seconds=60.0)], slept)

    assert slept.delays == []
    assert (
        "not retried: the next attempt would be in 60 seconds, but this request may wait only 10"
        in caught.value.message
    )
    assert caught.value.retry_after_seconds == 60.0


async def test_a_wait_longer_than_the_settings_allow_fails_at_once() -> None:
    slept = Slept()

    with pytest.raises(ModelError, match="may wait only 300"):
        await tried([passing(retry_after_seconds=3_600.0)], slept)

    assert slept.delays == []


def test_the_shortest_of_nested_limits_counts() -> None:
    assert seconds_left() is None
    with time_limit(100), time_limit(None), time_limit(5_000):
        left = seconds_left()
        assert left is not None
        assert 90 < left <= 100
    assert seconds_left() is None


async def test_a_provider_that_recovers_is_asked_until_it_answers(model_server: ModelServer) -> None:
    slept, told = Slept(), list[ModelEvent]()
    model_server.script(
        fails(429, "slow", headers={"retry-after": "3"}),
        fails(503),
        sends(b"<html>"),
        cuts(),
        says("at last"),
    )
    models = served_models(model_server, retries=4, timing=slept.timing(), on_event=told.append)
    model = await models.find(MODEL_OF["openai"])

    reply = await asyncio.wait_for(model.request(a_payload()), 60)

    assert reply.text == "at last"
    assert slept.delays == [3.5, 1.0, 2.0, 4.0]
    assert [(event.model, event.attempt) for event in told if isinstance(event, RequestRetried)] == [
        (MODEL_OF["openai"], number) for number in (1, 2, 3, 4)
    ]
    assert isinstance(told[0], RequestRetried)
    assert told[0].message == "status 429: slow"
    await models.close()


async def test_a_stream_is_retried_while_nothing_was_delivered(model_server: ModelServer) -> None:
    slept, pieces = Slept(), list[str]()
    model_server.script(fails(503), cuts(), says("a", "b"))
    models = served_models(model_server, retries=4, timing=slept.timing())
    model = await models.find(MODEL_OF["openai"])

    await asyncio.wait_for(model.request(a_payload(), pieces.append), 60)

    assert pieces == ["a", "b"]
    await models.close()


async def test_one_refusal_keeps_all_requests_of_the_provider_back(model_server: ModelServer) -> None:
    slept = Slept()
    model_server.script(fails(429, headers={"retry-after": "9"}))
    models = served_models(model_server, retries=0, timing=slept.timing(chance=0.0))
    model, other = await models.find("here:one"), await models.find("here:two")
    with pytest.raises(ModelError):
        await model.request(a_payload())
    assert len(model_server.requests) == 1

    with pytest.raises(ModelError) as caught, time_limit(1.0):
        await other.request(a_payload())

    assert "asked not to be called for another 9 seconds" in caught.value.message
    assert len(model_server.requests) == 1, "nobody hammers"
    await other.request(a_payload())
    assert slept.now >= 9.0
    await models.close()
