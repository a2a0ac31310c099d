"""What a turn may cost is set aside before it is made."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from tests.model_calls import a_call, a_step
from tests.model_payloads import MODEL_OF, a_payload, served_models
from tests.model_server import ModelServer, fails, says, sends
from weft.evaluator.budget import Scope
from weft.evaluator.budget_account import ScopeAccount
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.results import TaskFailure
from weft.llm.errors import ModelError
from weft.llm.handler import Handler
from weft.llm.payload import HandlerPayload, ModelReply, Usage, UserMessage
from weft.llm.protocol import Features, OnText
from weft.llm.providers.rate_limits import Timing
from weft.llm.usage import attempt, report_attempts
from weft.testing.scripted_model import ScriptedModel, tool_use

PROMPT = "x" * 384
"""100 tokens, as a scripted model counts."""


class Unpriced(ScriptedModel):
    def price(self, usage: Usage) -> float | None:
        return None


async def run(model: ScriptedModel, scope: Scope) -> Any:
    call = a_call(PROMPT)
    return await Handler(model).run(a_step(call), call, ScopeAccount(scope, "spender"))


def a_model(*answers: Any, **given: Any) -> ScriptedModel:
    given.setdefault("features", Features(context_window=100_000, max_output_tokens=1000))
    return ScriptedModel(list(answers) or ["ok"], **given)


async def test_without_a_budget_the_answer_is_not_cut() -> None:
    model, scope = a_model(), Scope({})

    await run(model, scope)

    assert model.payloads[0].metadata.max_tokens is None
    assert scope.used["tokens"] == 101
    assert scope.reserved["tokens"] == 0


@pytest.mark.parametrize(("budget", "most"), [(5000, None), (1099, 999), (600, 500), (116, 16)])
async def test_with_a_budget_of_tokens_the_answer_is_made_to_fit(budget: int, most: int | None) -> None:
    model = a_model()

    await run(model, Scope({"tokens": budget}))

    assert model.payloads[0].metadata.max_tokens == most


async def test_with_next_to_nothing_left_no_request_is_made() -> None:
    model, scope = a_model(), Scope({"tokens": 115})

    with pytest.raises(BudgetExceeded, match="does not fit the budget"):
        await run(model, scope)

    assert model.payloads == []
    assert (scope.used["tokens"], scope.reserved["tokens"]) == (0, 0)


async def test_with_a_budget_of_money_the_answer_is_made_to_fit() -> None:
    model = a_model(input_price=1e6, output_price=2e6)  # a dollar a token of input, two of output

    await run(model, Scope({"cost": 200}))
    assert model.payloads[0].metadata.max_tokens == 50

    with pytest.raises(BudgetExceeded):
        await run(model, Scope({"cost": 131}))
    assert len(model.payloads) == 1


async def test_a_budget_of_money_needs_a_price() -> None:
    model = Unpriced(["ok"])

    with pytest.raises(TaskFailed, match=r'input_price .* \[models.settings."test:scripted"\]') as caught:
        await run(model, Scope({"cost": 1}))

    assert caught.value.error.reason == "configuration_error"  # type: ignore[union-attr]
    assert model.payloads == []


async def test_a_model_without_a_price_may_be_used_without_a_budget_of_money() -> None:
    result = await run(Unpriced([ModelReply(text="ok", model="m", usage=Usage(input_tokens=4))]), Scope({}))

    assert (result.notes["usage"]["tokens"], result.notes["usage"]["cost"]) == (4, None)


async def test_more_than_was_set_aside_is_counted_and_the_answer_is_not_lost() -> None:
    usage = Usage(input_tokens=100, output_tokens=900)
    scope = Scope({"tokens": 500})

    result = await run(a_model(ModelReply(text="long", model="m", usage=usage)), scope)

    assert result.content == "long"
    assert scope.used["tokens"] == 1000
    with pytest.raises(BudgetExceeded, match=r"spender \(1000\)"):
        await run(a_model(), scope)


@pytest.mark.parametrize(
    ("error", "used"),
    [
        (ModelError("connection_error", "cut", partial_text="abcdef"), 103),
        (ModelError("connection_error", "no answer for 5 seconds"), 100),
        (ModelError("protocol_error", "half a JSON"), 100),
        (ModelError("connection_error", "cannot be reached", is_charged=False), 0),
        (ModelError("llm_error", "refused (status 400)"), 0),
        (ModelError("llm_error", "broken off", partial_text="abcdef"), 103),
    ],
)
async def test_a_request_that_was_sent_and_not_refused_is_charged_at_least_its_input(
    error: ModelError, used: int
) -> None:
    scope = Scope({"tokens": 5000})

    with pytest.raises(TaskFailed) as caught:
        await run(a_model(error), scope)

    assert (scope.used["tokens"], scope.reserved["tokens"]) == (used, 0)
    failed = caught.value.error
    assert isinstance(failed, TaskFailure)
    notes = failed.notes or {}
    assert notes["usage"]["tokens"] == used
    assert notes["usage"].get("is_estimated", False) is (used > 0)


class Stubborn(ScriptedModel):
    """Sends a request three times: refused, without an answer, answered."""

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        report_attempts()
        for error in (ModelError("llm_error", "status 429"), ModelError("connection_error", "late")):
            with suppress(ModelError), attempt():
                raise error
        with attempt():
            return await super().request(payload, on_text)


async def test_each_time_that_a_request_is_made_again_counts() -> None:
    scope = Scope({"tokens": 5000})

    result = await run(Stubborn(["ok"]), scope)

    assert scope.used["tokens"] == result.notes["usage"]["tokens"] == 201
    assert result.notes["usage"]["is_estimated"] is True


class Waiting(ScriptedModel):
    """Is cancelled before anything is sent."""

    async def request(self, payload: HandlerPayload, on_text: OnText | None = None) -> ModelReply:
        report_attempts()
        raise asyncio.CancelledError


async def test_a_request_that_was_never_sent_is_not_charged() -> None:
    scope = Scope({"tokens": 5000})

    with pytest.raises(asyncio.CancelledError):
        await run(Waiting(["ok"]), scope)

    assert (scope.used["tokens"], scope.reserved["tokens"]) == (0, 0)


class Mispriced(ScriptedModel):
    def price(self, usage: Usage) -> float | None:
        raise ZeroDivisionError


async def test_a_price_that_cannot_be_worked_out_leaves_nothing_set_aside() -> None:
    scope = Scope({"tokens": 5000})
    answer = ModelReply(text="ok", model="m", usage=Usage(input_tokens=100, output_tokens=1))

    result = await run(Mispriced([answer]), scope)

    assert (result.content, result.notes["usage"]["cost"]) == ("ok", None)
    assert (scope.used["tokens"], scope.reserved["tokens"]) == (101, 0)


@pytest.mark.parametrize(
    ("budget", "most"), [(1_000_000, None), (16_484, None), (16_483, 4096), (5000, 4096), (600, 500)]
)
async def test_a_model_that_does_not_say_its_maximum_is_asked_for_what_every_model_allows(
    budget: int, most: int | None
) -> None:
    model = a_model(features=Features(context_window=100_000))

    await run(model, Scope({"tokens": budget}))

    assert model.payloads[0].metadata.max_tokens == most


async def test_a_request_that_is_cancelled_frees_all_but_its_input() -> None:
    begun = asyncio.Event()

    async def hang(_: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    scope = Scope({"tokens": 5000})
    task = asyncio.ensure_future(run(a_model("late", latency_seconds=1, sleep=hang), scope))
    await begun.wait()
    during = scope.reserved["tokens"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (during, scope.reserved["tokens"], scope.left("tokens")) == (1100, 0, 4900)


async def test_what_was_said_before_the_budget_was_used_up_is_kept() -> None:
    said = ModelReply(text="so far", tool_uses=(tool_use("x"),), model="test:scripted")

    with pytest.raises(BudgetExceeded, match="spender") as caught:
        await run(a_model(*[said] * 9), Scope({"tokens": 400}))

    assert caught.value.error.content == "so far"
    assert caught.value.scope is not None
    assert caught.value.problem.code == "tokens-exhausted"


async def test_the_window_bounds_what_is_set_aside() -> None:
    model, scope = a_model(features=Features(context_window=400)), Scope({"tokens": 400})

    await run(model, scope)

    assert model.payloads[0].metadata.max_tokens is None


async def test_concurrent_requests_wait_for_what_others_do_not_use() -> None:
    model = a_model(*["ok"] * 50, latency_seconds=0.001)
    scope = Scope({"tokens": 6000})  # 50 take 5,050; five have room at the same time

    results = await asyncio.gather(*(run(model, scope) for _ in range(50)))

    assert [result.content for result in results] == ["ok"] * 50
    assert 1 < model.most_concurrent <= 6
    assert (scope.used["tokens"], scope.reserved["tokens"]) == (5050, 0)
    assert all((payload.metadata.max_tokens or 1000) >= 16 for payload in model.payloads)


async def test_a_request_that_waits_can_be_cancelled_and_the_next_one_gets_its_place() -> None:
    gates = [asyncio.Event() for _ in range(3)]
    begun: list[int] = []
    has_begun = asyncio.Event()

    async def hold(_: float) -> None:
        begun.append(len(begun))
        has_begun.set()
        await gates[begun[-1]].wait()

    model = a_model(*["ok"] * 3, latency_seconds=1, sleep=hold)
    scope = Scope({"tokens": 1200})
    first, second, third = (asyncio.ensure_future(run(model, scope)) for _ in range(3))
    await has_begun.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert begun == [0]
    second.cancel()
    gates[0].set()
    await first
    gates[1].set()

    assert (await third).content == "ok"
    assert second.cancelled()
    assert len(model.payloads) == 2


async def test_nobody_waits_for_a_budget_that_others_cannot_free() -> None:
    outer = Scope({})
    inner = Scope({"tokens": 100}, outer)
    ScopeAccount(outer, "other").reserve(10_000, 0)

    with pytest.raises(BudgetExceeded):
        await run(a_model(), inner)


async def test_requests_to_a_provider_count_as_often_as_they_were_taken(model_server: ModelServer) -> None:
    model_server.script(fails(503), sends(b"<html>"), says("ok", input_tokens=11, output_tokens=7))
    models = served_models(model_server, retries=3, timing=Timing(chance=lambda: 0.0))
    scope = Scope({"tokens": 5000})
    try:
        model = await models.find(MODEL_OF["openai"])
        call = a_call("Say hello.")
        result = await Handler(model).run(a_step(call), call, ScopeAccount(scope, "spender"))
        estimate = await model.count_tokens(a_payload(messages=(UserMessage("Say hello."),)))
    finally:
        await models.close()

    assert len(model_server.requests) == 3
    assert scope.used["tokens"] == result.notes["usage"]["tokens"] == 18 + estimate
