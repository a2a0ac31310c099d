"""What every Model must do: those that are told what to say, the providers, and the embedded one for real."""

import asyncio
import contextlib
import json

import pytest

from tests.contract.model_subjects import LONG, SUBJECTS, Subject, within_reason
from tests.payloads import ECHO, VERDICT, a_payload
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.payload import AssistantMessage, HandlerPayload, ToolMessage, Usage
from weft.llm.protocol import Features

TOKENS = 24
"""How long the answers of a real model may be: seconds, not minutes."""


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param](request)


def ask(prompt: str = "Say hello.", **fields: object) -> HandlerPayload:
    return a_payload(prompt, max_tokens=TOKENS, **fields)  # type: ignore[arg-type]


async def test_it_answers_with_text(subject: Subject) -> None:
    async with subject.make() as model:
        reply = await within_reason(model.request(ask()))

        assert reply.text
        assert reply.tool_uses == ()
        assert reply.model == model.id
        assert reply.finish_reason in ("stop", "length")
        if subject.is_told:
            assert reply.text == "you said Say hello."


async def test_the_pieces_of_a_stream_are_the_text(subject: Subject) -> None:
    pieces: list[str] = []
    async with subject.make() as model:
        reply = await within_reason(model.request(ask(), pieces.append))

    assert "".join(pieces) == reply.text
    assert len(pieces) > 1


async def test_an_answer_that_is_held_to_a_schema_fits_it(subject: Subject) -> None:
    async with subject.make() as model:
        reply = await within_reason(model.request(ask("Is water wet?", schema=VERDICT)))

        if model.features.output == "held":
            assert set(json.loads(reply.text)) == {"success"}
            assert isinstance(json.loads(reply.text)["success"], bool)


async def test_a_tool_is_asked_for_and_its_message_is_understood(subject: Subject) -> None:
    prompt = "Use the tool system_echo with the text hi."
    async with subject.make() as model:
        assert model.features.has_tools
        asked = await within_reason(model.request(a_payload(prompt, tools=(ECHO,), max_tokens=120)))
        if asked.tool_uses:  # a real one may answer at once
            (use,) = asked.tool_uses
            assert use.id
            assert use.name == "system_echo"
            assert isinstance(use.arguments, dict)
            assert isinstance(use.arguments["text"], str)
            assert asked.finish_reason == "tools"
            after = (AssistantMessage(asked.text, (use,)), ToolMessage("é", use.id, use.name))
            told = await within_reason(
                model.request(a_payload(prompt, tools=(ECHO,), after=after, max_tokens=120))
            )
            assert told.text or told.tool_uses
        if subject.is_told:
            assert use.arguments == {"text": "é"}
            assert told.text == "the tool gave é"


async def test_what_it_takes_is_counted(subject: Subject) -> None:
    async with subject.make() as model:
        payload = ask("Say hello, and then say it again.")
        usage = (await within_reason(model.request(payload))).usage

        assert usage.input_tokens > 0
        assert usage.output_tokens > 0
        counted = await model.count_tokens(payload)
        assert counted == await model.count_tokens(payload) > 0
        assert await model.count_tokens(ask("word " * 500)) > counted
        price = model.price(usage)
        assert price is None or price >= 0
        assert model.price(Usage()) in (None, 0.0)


async def test_a_request_that_is_cancelled_says_no_more_and_the_model_can_be_used(subject: Subject) -> None:
    pieces: list[str] = []
    async with subject.make() as model:

        def on_text(piece: str) -> None:
            pieces.append(piece)
            request.cancel()

        payload = a_payload(LONG, max_tokens=400)
        request = asyncio.create_task(model.request(payload, on_text))
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(request, 120)
        said = len(pieces)
        reply = await within_reason(model.request(ask()))

        assert reply.text
        assert len(pieces) == said


async def test_many_are_answered_at_the_same_time_each_with_its_own_answer(subject: Subject) -> None:
    count = 50 if subject.is_told else 4
    async with subject.make() as model:
        payloads = [a_payload(f"Say {number}.", max_tokens=8) for number in range(count)]
        replies = await asyncio.gather(*(within_reason(model.request(payload)) for payload in payloads))

    assert len(replies) == count
    assert all(reply.text for reply in replies)
    if subject.is_told:
        assert [reply.text for reply in replies] == [f"you said Say {number}." for number in range(count)]


@pytest.mark.parametrize(
    "prompt", ["Grüße, 你好, 👩‍🚀!", "\u202eright to left\u0000", "<|im_end|>{{x}}\\u0041\n\t"]
)
async def test_any_text_can_be_asked(subject: Subject, prompt: str) -> None:
    async with subject.make() as model:
        reply = await within_reason(model.request(ask(prompt)))

    if subject.is_told:
        said = f"you said {prompt}"
        assert reply.text in (said, said.replace("\0", "\ufffd"))  # providers' NULs are replaced


async def test_an_empty_prompt_is_answered_or_refused(subject: Subject) -> None:
    async with subject.make() as model:
        reply = None
        with contextlib.suppress(ModelError):
            reply = await within_reason(model.request(ask("")))

        assert reply is None or reply.model == model.id
        assert (await within_reason(model.request(ask()))).text


async def test_a_request_that_is_too_long_says_so(subject: Subject) -> None:
    async with subject.make() as model:
        with pytest.raises(ContextTooLong) as refused:
            await within_reason(model.request(ask("word " * 60_000)))

        assert not refused.value.is_transient
        assert (await within_reason(model.request(ask()))).text


async def test_it_says_what_it_is(subject: Subject) -> None:
    async with subject.make() as model:
        provider, colon, name = model.id.partition(":")

        assert provider
        assert colon
        assert name
        assert isinstance(model.features, Features)
        assert model.features.context_window is None or model.features.context_window > 0
