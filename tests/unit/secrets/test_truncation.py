"""Texts that are cut: of a secret nothing is left, wherever the cut goes through it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.secret_forms import shows_part
from weft.evaluator.conversion import as_text
from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.evaluator.tools import ToolContext, ToolDefinition, ToolUse
from weft.llm.local.catalogue import catalogue
from weft.llm.local.download import _failure_message as why_not_fetched
from weft.llm.tool_calls import MAX_RESULT_CHARACTERS, Toolset
from weft.secrets.registry import redact, register
from weft.secrets.truncation import MARGIN, cut, cut_middle, without_half
from weft.tools import system
from weft.tools.mcp import connection
from weft.tools.roots import Roots

KEY = "qZ7!live-9fK2mX7qLw3ZrT8vBn5YpD4hJ6sG1cV0"
"""Nothing of it is found in the text around."""

CONTEXT = ToolContext(step_key="1")

OFFSETS = range(-len(KEY) - 2, 3)
"""Where the secret begins, seen from the cut."""


@pytest.fixture(autouse=True)
def known() -> None:
    register(KEY, "KEY")


def around(place: int, length: int) -> str:
    return ("." * max(0, place) + KEY).ljust(length, ".")


def test_cut() -> None:
    for offset in OFFSETS:
        for most in (len(KEY) + 2, 1_000):
            assert not shows_part(KEY, cut(around(most + offset, 3_000), most))
            assert not shows_part(KEY, cut(around(most + offset, most + 5 * MARGIN), most))


def test_the_end_of_what_is_looked_at() -> None:
    """Marks make a text shorter: what is shown must not come near the place where a secret may be cut."""
    for offset in OFFSETS:
        before = 1_000 + 2 * MARGIN + offset
        text = KEY * (before // len(KEY)) + "." * (before % len(KEY)) + around(0, 90_000)

        assert not shows_part(KEY, cut(text, 1_000))


def test_cut_middle() -> None:
    for offset in OFFSETS:
        for place in (500 + offset, 2_500 + offset):
            assert not shows_part(KEY, cut_middle(around(place, 3_000), 1_000))


@pytest.mark.parametrize("kept", range(1, len(KEY) + 1))
def test_a_text_that_was_cut_before(kept: int) -> None:
    assert not shows_part(KEY, without_half("..." + KEY[:kept]) + " [cut]")


def test_what_is_short_stays() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "abc..."
    assert cut_middle("abcd", 4) == "abcd"
    assert cut_middle(f"short {KEY}", 4_000) == "short [secret KEY]"
    assert without_half("abcd") == "abcd"


def test_what_a_script_prints() -> None:
    for offset in OFFSETS:
        half = system.MAX_OUTPUT_CHARACTERS // 2
        text = around(half + offset, 3 * half)

        async def run(script: ScriptRun, said: str = text) -> ScriptOutcome:
            return ScriptOutcome(stdout=said, stderr=said[::-1].replace(KEY[::-1], KEY), exit_code=0)

        found = asyncio.run(
            system.SystemTool(system.ScriptTools(run).run_script).call({"argv": ["x"]}, CONTEXT)
        )

        assert not shows_part(KEY, redact(as_text(found)))


def test_a_file_that_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for offset in OFFSETS:
        monkeypatch.setattr(system, "MAX_READ_BYTES", 200)
        (tmp_path / "f.txt").write_text(around(200 + offset, 400))

        found = asyncio.run(
            system.system_tools(Roots([tmp_path]), None)[0].call({"paths": ["f.txt"]}, CONTEXT)
        )

        assert not shows_part(KEY, redact(as_text(found)))


def test_what_a_server_says() -> None:
    for offset in OFFSETS:
        assert not shows_part(KEY, redact(f"{connection._short(around(300 + offset, 400))} (server x)"))


def test_what_pip_says() -> None:
    for offset in OFFSETS:
        said = why_not_fetched(catalogue()[0].wheels[0], "ERROR: " + around(500 + offset, 600))

        assert not shows_part(KEY, redact(said))


class Says:
    """A tool that says a text."""

    has_effects = False
    definition = ToolDefinition(name="test:says", description="Says it.", input_schema={"type": "object"})

    def __init__(self, text: str) -> None:
        self._text = text

    async def call(self, arguments: dict[str, Any], context: ToolContext) -> str:
        return self._text


def test_what_a_model_is_told() -> None:
    for offset in OFFSETS:
        tool = Says(around(MAX_RESULT_CHARACTERS + offset, MAX_RESULT_CHARACTERS + 100))
        said = asyncio.run(Toolset({"t": tool}).call(tool, ToolUse(id="1", name="t"), CONTEXT))

        assert not shows_part(KEY, said.content)
        assert "[cut here" in said.content


CUTS: list[Callable[[str], str]] = [lambda text: cut(text, 40), lambda text: cut_middle(text, 40)]


@pytest.mark.parametrize("shorten", CUTS)
def test_no_cut_is_longer_than_it_says(shorten: Callable[[str], str]) -> None:
    assert len(shorten("x" * 1_000).replace("x", "")) < 50
    assert shorten("x" * 1_000).count("x") == 40
