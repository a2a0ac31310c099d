"""Estimates of tokens: rather too many."""

import pytest

from tests.model_payloads import a_payload
from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.context_window import estimate, estimate_payload
from weft.llm.payload import AssistantMessage, UserMessage


@pytest.mark.parametrize(
    ("text", "real"),
    [
        # As the tokenizers of SmolLM2 and Qwen2.5-Coder count, whichever says more.
        ("", 0),
        ("Hello, world!", 4),
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("THE QUICK BROWN FOX JUMPS OVER", 13),
        ("def add(a: int, b: int) -> int:\n    return a + b\n", 20),
        ("a\n\n\n    b\t\t\tc     d\n", 9),
        ("1234567890", 10),
        ("550e8400-e29b-41d4-a716-446655440000", 36),
        ("antidisestablishmentarianism", 6),
        ("read_project_settings_from_file camelCaseIdentifierName HTTPServerError", 16),
        ("Привет, как дела? Сегодня хорошая погода, и мы идём гулять.", 47),
        ("こんにちは世界", 14),
        ("안녕하세요 세계 오늘 날씨가 좋네요", 44),
    ],
)
def test_an_estimate_is_not_below_what_tokenizers_make_of_it(text: str, real: int) -> None:
    assert real <= estimate(text) <= 2.1 * real


def test_a_long_text_is_counted_in_one_pass() -> None:
    # A pattern that looks ahead at every letter would take minutes here.
    assert estimate("a" * 200_000) == 50_000


def test_everything_that_is_sent_is_counted() -> None:
    bare = estimate_payload(a_payload())
    tool = ToolDefinition(name="look", description="Looks around.", input_schema={"type": "object"})
    use = ToolUse(id="1", name="look", arguments={"path": "a"})

    larger = [
        a_payload(system_prompt="Be brief."),
        a_payload(context="some data"),
        a_payload(tools=(tool,)),
        a_payload(output_schema={"type": "object"}),
        a_payload(messages=(UserMessage("hi"), AssistantMessage("", tool_uses=(use,)))),
    ]
    assert all(estimate_payload(payload) > bare for payload in larger)
