"""Models whose answers were decided beforehand."""

import asyncio

import pytest

from tests.payloads import ECHO, a_payload
from weft.evaluator.tools import ToolUse
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.payload import AssistantMessage, ModelReply, ToolMessage, Usage, UserMessage
from weft.llm.protocol import Features, Model
from weft.testing.scripted_model import ScriptedModel, tool_use


async def test_a_list_is_given_in_order() -> None:
    model: Model = ScriptedModel(["one", {"two": [2]}])

    assert [(await model.request(a_payload())).text for _ in range(2)] == ["one", '{"two": [2]}']


async def test_a_mapping_is_looked_up_by_template_then_by_the_prompt() -> None:
    model = ScriptedModel({"review": "by template", "cats": ["first", "second"], "dogs": "dogs"})

    assert (await model.request(a_payload("about cats", template="review"))).text == "by template"
    assert (await model.request(a_payload("about cats", template="other"))).text == "first"
    assert (await model.request(a_payload("about cats"))).text == "second"
    assert (await model.request(a_payload("about dogs"))).text == "dogs"


async def test_what_is_asked_now_decides_before_what_was_asked_earlier() -> None:
    model = ScriptedModel({"cats": "cats", "dogs": "dogs"})
    before = (UserMessage("about cats"), AssistantMessage("cats"))

    assert (await model.request(a_payload("about dogs", before=before))).text == "dogs"
    assert (await model.request(a_payload("once more", before=before))).text == "cats"
    assert (await model.request(a_payload("what is it?", context="it is about dogs"))).text == "dogs"


async def test_a_function_gets_the_payload() -> None:
    model = ScriptedModel(lambda payload: payload.messages[-1].content.upper())

    assert (await model.request(a_payload("loud"))).text == "LOUD"


async def test_running_out_says_what_was_asked() -> None:
    model = ScriptedModel(["one"])
    await model.request(a_payload())

    with pytest.raises(ModelError, match="no response is scripted for: And then\\?") as failed:
        await model.request(a_payload("And then?"))

    assert (failed.value.reason, failed.value.is_transient) == ("llm_error", False)


async def test_an_exception_is_raised() -> None:
    model = ScriptedModel([ModelError("connection_error", "cut", is_transient=True), "there"])

    with pytest.raises(ModelError, match="cut"):
        await model.request(a_payload())
    assert (await model.request(a_payload())).text == "there"


async def test_tools_are_used_under_the_names_of_the_payload() -> None:
    model = ScriptedModel({"hello": [tool_use("system:echo", text="x"), "done"]})
    asked = await model.request(a_payload("hello", tools=(ECHO,)))
    (use,) = asked.tool_uses
    after = (AssistantMessage("", asked.tool_uses), ToolMessage("x", use.id, use.name))

    assert use == ToolUse(id="use-1", name="system_echo", arguments={"text": "x"})
    assert (asked.text, asked.finish_reason) == ("", "tools")
    assert (await model.request(a_payload("hello", tools=(ECHO,), after=after))).text == "done"


async def test_a_tool_that_the_payload_does_not_list_keeps_its_name() -> None:
    model = ScriptedModel([(tool_use("system:none"), tool_use("other", a=1))])

    uses = (await model.request(a_payload(tools=(ECHO,)))).tool_uses

    assert [(use.id, use.name) for use in uses] == [("use-1", "system:none"), ("use-2", "other")]


async def test_a_reply_is_given_as_it_is() -> None:
    reply = ModelReply(text="x", usage=Usage(input_tokens=7), model="m:m", finish_reason="length")

    assert await ScriptedModel([reply]).request(a_payload()) is reply


async def test_tokens_are_counted_the_same_way_every_time() -> None:
    model = ScriptedModel(["12345678"], input_price=1e6, output_price=2e6)
    payload = a_payload("x" * 40, system="y" * 8)
    usage = (await model.request(payload)).usage

    assert await model.count_tokens(payload) == 10 + 4 + 2
    assert (usage.input_tokens, usage.output_tokens, usage.cost) == (16, 2, 20.0)


async def test_a_payload_beyond_the_window_is_refused() -> None:
    model = ScriptedModel(["x"], features=Features(context_window=10))

    with pytest.raises(ContextTooLong, match="29 tokens, but the context window has 10"):
        await model.request(a_payload("x" * 100))


async def test_a_text_is_streamed_word_by_word() -> None:
    pieces: list[str] = []
    reply = await ScriptedModel(["  two words,\nand more "]).request(a_payload(), pieces.append)

    assert pieces == ["  two ", "words,\n", "and ", "more "]
    assert "".join(pieces) == reply.text


async def test_the_latency_is_waited_and_a_cancelled_payload_is_kept() -> None:
    slept: list[float] = []
    began = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        began.set()
        await asyncio.Event().wait()

    model = ScriptedModel(["x"], latency_seconds=3.0, sleep=sleep)
    request = asyncio.create_task(model.request(a_payload()))
    await began.wait()
    request.cancel()

    with pytest.raises(asyncio.CancelledError):
        await request
    assert (slept, model.cancelled, model.most_concurrent) == ([3.0], [a_payload()], 1)
