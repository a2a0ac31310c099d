"""The examples of the pages on models, tools and tests can be typed as they stand."""

import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from weft.cli.main import weft
from weft.config.settings import load_settings
from weft.language.reading import read_text

DOCS = Path(__file__).parents[2] / "docs"

PAGES = (
    "reference/tools",
    "reference/models",
    "howto/embedded-models",
    "howto/test-templates",
    "howto/secrets",
)

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`(\([^`]*\))`")


def blocks(page: str, *kinds: str) -> list[str]:
    """Return the blocks of a page that are of these kinds."""
    text = (DOCS / f"{page}.md").read_text()
    return [block for kind, block in _BLOCK.findall(text) if kind in kinds]


def commands(page: str) -> list[list[str]]:
    """Return the commands of a page, each as its words."""
    lines = [line for block in blocks(page, "text", "console") for line in block.splitlines()]
    return [
        shlex.split(line.removeprefix("$ "))[1:] for line in lines if line.startswith(("weft ", "$ weft "))
    ]


def programs(page: str) -> list[str]:
    """Return the S-expressions of a page: blocks without a language, inline ones and those of `weft eval`."""
    inline = _INLINE.findall((DOCS / f"{page}.md").read_text())
    typed = [words[1] for words in commands(page) if words[0] == "eval"]
    return [*blocks(page, ""), *inline, *typed]


def documents(kind: str) -> list[Any]:
    return [
        pytest.param(block, id=f"{page}-{index}")
        for page in PAGES
        for index, block in enumerate(blocks(page, kind))
    ]


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=f"{page}-{i}") for page in PAGES for i, text in enumerate(programs(page))]
)
def test_a_program_of_a_page_is_read(text: str) -> None:
    assert read_text(text, "<page>", "sexp").forms


@pytest.mark.parametrize("text", documents("xml"))
def test_xml_of_a_page_is_read(text: str) -> None:
    assert read_text(text, "<page>", "xml").forms


@pytest.mark.parametrize("text", documents("toml"))
def test_settings_of_a_page_are_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text(text)

    load_settings(environment={}, folder=tmp_path)


@pytest.mark.parametrize(
    "words", [pytest.param(words, id=" ".join(words)) for page in PAGES for words in commands(page)]
)
def test_a_command_of_a_page_is_one(words: list[str]) -> None:
    command: click.Command = weft
    context = command.make_context("weft", list(words))
    while isinstance(command, click.Group):
        left = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, left)
        assert found is not None
        command = found
        context = command.make_context(name, rest, parent=context)


def test_the_pages_have_examples() -> None:
    assert len([text for page in PAGES for text in programs(page)]) >= 3
    assert len([words for page in PAGES for words in commands(page)]) >= 3
