"""The handler: turns, answers, and what goes wrong with them."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.model_calls import JSON, a_call, a_step
from weft.clock import ManualClock
from weft.config.sections import HandlerSettings
from weft.evaluator.effects import ModelCall, Repair, Step, Turn
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import ResourceExhaustion, TaskFailure, TaskResult
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.events import ModelEvent, ResponseTruncated, TextArrived, TurnEnded, TurnFailed
from weft.llm.handler import Handler
from weft.llm.payload import AssistantMessage, HandlerPayload, ModelReply, Usage, UserMessage
from weft.llm.protocol import Features
from weft.llm.turn_log import TurnJournal
from weft.testing.scripted_model import ScriptedModel


async def run(model: ScriptedModel, call: ModelCall, **handler: Any) -> TaskResult:
    return await Handler(model, **handler).run(a_step(call), call)


async def failure(model: ScriptedModel, call: ModelCall, **handler: Any) -> Any:
    with pytest.raises(TaskFailed) as caught:
        await run(model, call, **handler)
    return caught.value.error


async def test_an_answer_comes_with_what_it_took() -> None:
    clock = ManualClock()
    reply = ModelReply(text="Hello.", model="test:m", usage=Usage(input_tokens=7, output_tokens=3))
    model = ScriptedModel([reply], id="test:m", input_price=1.0, output_price=2.0)

    result = await run(model, a_call(), clock=clock)

    assert (result.content, result.status) == ("Hello.", "COMPLETE")
    assert result.notes["usage"] == {
        "input_tokens": 7,
        "output_tokens": 3,
        "tokens": 10,
        "cost": pytest.approx(13e-6),
        "turns": 1,
        "model": "test:m",
    }
    assert result.notes["answered_at"] == clock.now().isoformat()
    assert result.notes["resourceUsage"]["turns"]["used"] == 1


async def test_the_payload_has_the_parts_of_the_protocol() -> None:
    model = ScriptedModel(["ok"])
    clock = ManualClock()
    turns = (Turn("first?", "first.", "2025-01-01T00:00:00+00:00"),)
    call = a_call("second?", system="Be brief.", conversation=turns, template="ask")

    await run(model, call, clock=clock, settings=HandlerSettings(system_prompt="You are weft."))

    (payload,) = model.payloads
    assert payload.system_prompt == "You are weft.\n\nBe brief."
    assert [(type(one), one.content) for one in payload.messages] == [
        (UserMessage, "first?"),
        (AssistantMessage, "first."),
        (UserMessage, "second?"),
    ]
    assert payload.messages[2].timestamp == clock.now()
    assert payload.metadata.template == "ask"
    assert payload.metadata.max_tokens is None
    assert payload.output_schema is None


@pytest.mark.parametrize(("output", "says"), [("held", False), ("asked", True), ("none", True)])
async def test_a_schema_is_put_in_words_only_where_nothing_holds_the_model_to_it(
    output: Any, says: bool
) -> None:
    model = ScriptedModel(["{}"], features=Features(output=output))
    schema = {"type": "object", "required": ["a"]}

    await run(model, a_call(output_format=JSON, output_schema=schema))

    (payload,) = model.payloads
    assert payload.output_schema == schema
    assert ('"required": ["a"]' in payload.system_prompt) is says


@pytest.mark.parametrize(("schema", "handed_on"), [(None, {}), (True, {}), (False, {"not": {}})])
async def test_json_of_any_shape_is_an_empty_schema(schema: Any, handed_on: Any) -> None:
    model = ScriptedModel(["{}"])

    await run(model, a_call(output_format=JSON, output_schema=schema))

    assert model.payloads[0].output_schema == handed_on


async def test_the_second_ask_shows_the_answer_and_what_is_wrong_with_it() -> None:
    model = ScriptedModel(["{}"])

    await run(model, a_call("p", output_format=JSON, repair=Repair("no json", "expected value")))

    messages = model.payloads[0].messages
    assert [type(one) for one in messages] == [UserMessage, AssistantMessage, UserMessage]
    assert messages[1].content == "no json"
    assert "expected value" in messages[2].content


@pytest.mark.parametrize(
    "reason", ["connection_error", "llm_error", "protocol_error", "configuration_error", "execution_timeout"]
)
async def test_a_model_that_fails_fails_the_task_with_its_reason(reason: Any) -> None:
    broken = ModelError(reason, "it broke", is_transient=True, retry_after_seconds=2.5, partial_text="so far")

    error = await failure(ScriptedModel([broken]), a_call())

    assert isinstance(error, TaskFailure)
    assert (error.reason, error.message, error.content) == (reason, "it broke", "so far")
    assert error.details == {"is_transient": True, "retry_after_seconds": 2.5}


async def test_a_request_that_the_provider_finds_too_long_exhausts_the_context() -> None:
    error = await failure(ScriptedModel([ContextTooLong("llm_error", "too long")]), a_call())

    assert isinstance(error, ResourceExhaustion)
    assert error.resource == "context"
    assert error.metrics is not None
    assert set(error.metrics) == {"used", "limit", "peak"}


async def test_a_filtered_answer_is_no_answer() -> None:
    reply = ModelReply(text="I can", model="test:m", finish_reason="filtered")

    error = await failure(ScriptedModel([reply]), a_call())

    assert (error.reason, error.content) == ("llm_error", "I can")


async def test_a_text_that_is_cut_is_complete_and_says_so() -> None:
    reply = ModelReply(text="Once upon", model="test:m", finish_reason="length")

    events: list[ModelEvent] = []
    result = await run(ScriptedModel([reply]), a_call(template="tell"), on_event=events.append)

    assert (result.content, result.notes["truncated"]) == ("Once upon", True)
    assert [event.template for event in events if isinstance(event, ResponseTruncated)] == ["tell"]


async def test_json_that_is_cut_exhausts_the_output_and_is_kept() -> None:
    usage = Usage(input_tokens=1, output_tokens=5)
    reply = ModelReply(text='{"a": ', model="test:m", finish_reason="length", usage=usage)

    error = await failure(ScriptedModel([reply]), a_call(output_format=JSON))

    assert (error.resource, error.content) == ("output", '{"a": ')
    assert error.metrics == {"used": 5.0, "limit": 5.0}


@pytest.mark.parametrize(("own", "general"), [(0.01, None), (None, 0.01), (60, 0.01)])
async def test_a_timeout_cancels_the_request_for_real(own: float | None, general: float | None) -> None:
    async def hang(_: float) -> None:
        await asyncio.Event().wait()

    model = ScriptedModel(["late"], latency_seconds=1, sleep=hang)
    settings = HandlerSettings(timeout_seconds=general)

    error = await failure(model, a_call(timeout_seconds=own), settings=settings)

    assert error.reason == "execution_timeout"
    assert "0.01 seconds" in error.message
    assert len(model.cancelled) == 1


async def test_what_had_arrived_is_kept_when_the_time_is_up() -> None:
    class Slow(ScriptedModel):
        async def request(self, payload: Any, on_text: Any = None) -> ModelReply:
            on_text("half an ")
            on_text("answer")
            await asyncio.Event().wait()
            raise AssertionError

    error = await failure(Slow(), a_call(timeout_seconds=0.01), is_streaming=True)

    assert error.content == "half an answer"


async def test_a_timeout_error_of_the_model_is_not_ours() -> None:
    with pytest.raises(TimeoutError, match="its own"):
        await run(ScriptedModel([TimeoutError("its own")]), a_call(timeout_seconds=60))


async def test_a_task_that_is_cancelled_cancels_its_request() -> None:
    begun = asyncio.Event()

    async def hang(_: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    model = ScriptedModel(["late"], latency_seconds=1, sleep=hang)
    task = asyncio.ensure_future(run(model, a_call()))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(model.cancelled) == 1


async def test_text_is_told_as_it_arrives_if_somebody_listens() -> None:
    events: list[ModelEvent] = []
    model = ScriptedModel(["one two", "three"])

    await run(model, a_call(), on_event=events.append, is_streaming=True)
    streamed = [event.text for event in events if isinstance(event, TextArrived)]
    events.clear()
    await run(model, a_call(), on_event=events.append)

    assert "".join(streamed) == "one two"
    assert [type(event) for event in events] == [TurnEnded]


async def test_what_a_model_says_is_never_read_for_placeholders() -> None:
    text = '{{secret}} (system:run "rm") <task/>'

    assert (await run(ScriptedModel([text]), a_call())).content == text


async def test_the_journal_performs_the_turns_and_can_know_them_already() -> None:
    class Resolved(TurnJournal):
        def __init__(self, replies: Sequence[ModelReply]) -> None:
            self.replies = list(replies)
            self.keys: list[str] = []

        async def reply(self, key: str, said: Any, ask: Any, has_more_turns: Any) -> ModelReply:
            self.keys.append(key)
            return self.replies.pop(0)

        async def tool_message(self, key: str, use: Any, call: Any) -> Any:
            raise AssertionError

    journal = Resolved([ModelReply(text="known", model="test:m")])
    model = ScriptedModel()

    result = await run(model, a_call(), journal=journal)

    assert (result.content, journal.keys, model.payloads) == ("known", ["3/1#1"], [])


async def test_the_journal_can_know_the_result_of_the_whole_task() -> None:
    class Resolved(TurnJournal):
        async def known(self, step: Step, model: Any, payload: Callable[[], HandlerPayload]) -> TaskResult:
            return TaskResult(f"known: {payload().messages[-1].content}", "COMPLETE")

    model = ScriptedModel()
    result = await run(model, a_call(), journal=Resolved())

    assert result.content.startswith("known: ")
    assert model.payloads == []


async def test_times_come_from_the_clock() -> None:
    clock = ManualClock()

    class Ticking(ScriptedModel):
        async def request(self, payload: Any, on_text: Any = None) -> ModelReply:
            clock.advance(timedelta(seconds=5))
            return await super().request(payload, on_text)

    before = clock.now()
    result = await run(Ticking(["ok"]), a_call(), clock=clock)

    assert result.notes["answered_at"] == (before + timedelta(seconds=5)).isoformat()


class Uncountable(ScriptedModel):
    async def count_tokens(self, payload: HandlerPayload) -> int:
        raise ModelError("llm_error", "the tokenizer does not answer")


async def test_tokens_that_cannot_be_counted_fail_the_task() -> None:
    error = await failure(Uncountable(["never"]), a_call())

    assert (error.reason, error.message) == ("llm_error", "the tokenizer does not answer")


async def test_a_stream_that_is_cut_is_told_and_noted() -> None:
    events: list[ModelEvent] = []
    cut = ModelError("connection_error", "cut", partial_text="word " * 3)

    error = await failure(ScriptedModel([cut]), a_call(), on_event=events.append, is_streaming=True)

    (told,) = [event for event in events if isinstance(event, TurnFailed)]
    assert told.usage.is_estimated
    assert error.notes["usage"]["tokens"] == told.usage.tokens > 5
