"""Sessions: turns and the window are counted, enforced and warned of."""

from typing import Any

import pytest

from tests.model_calls import a_call, a_step
from weft.config.sections import HandlerSettings
from weft.evaluator.effects import ModelCall, Turn
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import ResourceExhaustion
from weft.llm.events import ModelEvent, ResourceWarned
from weft.llm.handler import Handler
from weft.llm.payload import ModelReply
from weft.llm.protocol import Features
from weft.testing.scripted_model import ScriptedModel, tool_use

TURNS = tuple(Turn(f"question {number} " + "x" * 400, f"answer {number}") for number in range(10))
"""Some 110 tokens each, as a scripted model counts."""


def a_model(window: int, *answers: Any) -> ScriptedModel:
    return ScriptedModel(list(answers) or ["ok"], features=Features(context_window=window))


async def run(model: ScriptedModel, call: ModelCall, **settings: Any) -> tuple[Any, list[ModelEvent]]:
    events: list[ModelEvent] = []
    handler = Handler(model, settings=HandlerSettings(**settings), on_event=events.append)
    return await handler.run(a_step(call), call), events


async def test_a_task_that_does_not_fit_the_window_is_not_sent() -> None:
    model = a_model(100)

    with pytest.raises(TaskFailed, match="test:scripted accepts at most") as caught:
        await run(model, a_call("x" * 400))

    error = caught.value.error
    assert isinstance(error, ResourceExhaustion)
    assert error.resource == "context"
    assert error.metrics == {"used": 104.0, "limit": 90.0, "peak": 104.0}
    assert model.payloads == []


async def test_history_that_does_not_fit_is_cut_from_the_oldest_and_noted() -> None:
    model = a_model(500)

    result, _ = await run(model, a_call("the task itself", conversation=TURNS))

    (payload,) = model.payloads
    kept = (len(payload.messages) - 1) // 2
    assert 0 < kept < len(TURNS)
    assert payload.messages[0].content == TURNS[-kept].prompt
    assert payload.messages[-1].content == "the task itself"
    assert await model.count_tokens(payload) <= 450
    assert result.notes["history_turns_left_out"] == len(TURNS) - kept
    bigger = (*TURNS[-kept - 1 :],)
    again = a_model(500)
    result, _ = await run(again, a_call("the task itself", conversation=bigger))
    assert result.notes["history_turns_left_out"] == 1  # not one more than must be


async def test_history_that_fits_is_sent_whole() -> None:
    model = a_model(100_000)

    result, _ = await run(model, a_call(conversation=TURNS))

    assert len(model.payloads[0].messages) == 2 * len(TURNS) + 1
    assert "history_turns_left_out" not in result.notes


async def test_a_long_tool_loop_is_ended_when_the_window_is_full_and_keeps_what_was_said() -> None:
    said = ModelReply(text="thinking " * 20, tool_uses=(tool_use("x"),), model="test:scripted")
    model = a_model(300, *[said] * 20)

    with pytest.raises(TaskFailed) as caught:
        await run(model, a_call())

    assert caught.value.error.resource == "context"  # type: ignore[union-attr]
    assert caught.value.error.content == said.text
    assert 1 < len(model.payloads) < 20


async def test_each_resource_warns_once_at_its_threshold() -> None:
    said = ModelReply(text="thinking " * 20, tool_uses=(tool_use("x"),), model="test:scripted")
    model = a_model(2000, *[said] * 8, "done")

    _, events = await run(model, a_call(), max_turns=10, warning_threshold=0.3)

    warned = [event for event in events if isinstance(event, ResourceWarned)]
    assert [(one.resource, one.limit) for one in warned] == [("turns", 10), ("context", 1800)]
    assert warned[0].used == 3
    assert 540 <= warned[1].used < 700


async def test_a_window_that_nobody_knows_is_not_enforced() -> None:
    model = ScriptedModel(["ok"], features=Features(context_window=None))

    result, events = await run(model, a_call("x" * 1_000_000))

    assert result.notes["resourceUsage"]["context"]["limit"] == 0
    assert not any(isinstance(event, ResourceWarned) for event in events)


async def test_metrics_have_the_names_of_the_specification() -> None:
    result, _ = await run(a_model(1000), a_call("x" * 40))

    metrics = result.notes["resourceUsage"]
    assert metrics["context"] == {"used": 14, "limit": 900, "peakUsage": 14}
    assert set(metrics["turns"]) == {"used", "limit", "lastTurnAt"}
