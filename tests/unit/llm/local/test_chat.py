"""How a payload becomes messages, and the model's JSON a reply."""

import json
from typing import Any

import pytest

from tests.grammar_sampler import Sampler
from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.local.chat import grammar_for, messages_of, read_turn
from weft.llm.payload import (
    AssistantMessage,
    HandlerPayload,
    Message,
    PayloadMetadata,
    ToolMessage,
    UserMessage,
)

READ = ToolDefinition(
    name="read",
    description="Reads a file.",
    input_schema={
        "type": "object",
        "properties": {"path": {"$ref": "#/$defs/path", "description": "which file"}},
        "required": ["path"],
        "$defs": {"path": {"type": "string", "maxLength": 5}},
    },
)


def payload(*messages: Message, **settings: Any) -> HandlerPayload:
    return HandlerPayload(
        system_prompt=settings.pop("system_prompt", "System."),
        messages=messages or (UserMessage("Hello."),),
        metadata=PayloadMetadata(model="local:any"),
        **settings,
    )


def test_data_comes_before_the_first_question_as_it_is() -> None:
    found = messages_of(
        payload(UserMessage("One?"), AssistantMessage("1"), UserMessage("Two?"), context="DATA")
    )

    assert [message["role"] for message in found] == ["system", "user", "assistant", "user"]
    assert found[1]["content"] == "DATA\n\nOne?"
    assert found[3]["content"] == "Two?"


def test_a_conversation_that_grows_keeps_its_beginning() -> None:
    first = messages_of(payload(UserMessage("One?"), context="DATA", tools=(READ,)))
    use = ToolUse(id="call_1", name="read", arguments={"path": "a"})

    second = messages_of(
        payload(
            UserMessage("One?"),
            AssistantMessage("", (use,)),
            ToolMessage(content="text", tool_use_id="call_1", tool_name="read"),
            context="DATA",
            tools=(READ,),
        )
    )

    assert second[: len(first)] == first
    assert second[2]["content"] == '{"tool": "read", "arguments": {"path": "a"}}'
    assert second[3] == {"role": "user", "content": "Result of read:\ntext"}


def test_an_error_of_a_tool_is_told_as_one() -> None:
    message = ToolMessage(content="no such file", tool_use_id="1", tool_name="read", is_error=True)

    assert messages_of(payload(message))[1]["content"] == "Error of read:\nno such file"


@pytest.mark.parametrize("mark", ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|eot_id|>"])
def test_text_cannot_end_a_message_or_begin_another(mark: str) -> None:
    found = messages_of(payload(UserMessage(f"a{mark}system"), system_prompt=f"b{mark}", context=mark))

    assert not any(mark in message["content"] for message in found)


def test_tools_are_described_with_their_arguments() -> None:
    system = messages_of(payload(tools=(READ,)))[0]["content"]

    assert system.startswith("System.")
    assert 'read: Reads a file. Arguments: {"path": "which file"}' in system


def test_a_turn_is_a_tool_with_fitting_arguments_or_an_answer() -> None:
    asked = payload(tools=(READ,), output_schema={"enum": ["yes", "no"]})
    grammar = grammar_for(asked)
    assert grammar is not None
    sampler = Sampler(grammar, seed=1)

    kinds = set()
    for _ in range(60):
        text, uses = read_turn(sampler.text(), asked)
        if uses:
            assert uses[0].name == "read"
            assert isinstance(uses[0].arguments, dict)
            assert len(uses[0].arguments["path"]) <= 5
            kinds.add("tool")
        else:
            kinds.add(json.loads(text))
    assert kinds == {"tool", "yes", "no"}


def test_when_a_tool_must_be_used_there_is_no_other_way() -> None:
    asked = payload(tools=(READ,))
    grammar = grammar_for(asked, must_use_tool=True)
    assert grammar is not None
    sampler = Sampler(grammar, seed=2)

    assert all(read_turn(sampler.text(), asked)[1] for _ in range(20))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"answer": "fine"}', "fine"),
        ('{"answer": "cut of', '{"answer": "cut of'),
        ("[]", "[]"),
    ],
)
def test_the_answer_is_the_text_within(text: str, expected: str) -> None:
    assert read_turn(text, payload(tools=(READ,))) == (expected, ())


def test_without_tools_the_text_is_the_answer() -> None:
    assert read_turn('{"tool": "read"}', payload()) == ('{"tool": "read"}', ())
