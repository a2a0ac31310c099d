"""The outline of Python files is what `ast` says, however it is found."""

import ast
import sysconfig
import warnings
from pathlib import Path

import pytest

from weft.memory.files.outline import (
    NotSure,
    by_lines,
    by_tree,
    python_outline,
    title_by_lines,
    title_by_tree,
)
from weft.memory.protocol import Symbol

LIBRARY = Path(sysconfig.get_path("stdlib"))


def outline(text: str) -> list[Symbol]:
    return python_outline(text)[0]


def test_names_have_their_kinds_and_lines() -> None:
    text = "LIMIT = 3\n\n\nclass A:\n    async def run(self):\n        def inner(): ...\n\n\ndef f(x): ...\n"

    assert outline(text) == [
        Symbol("LIMIT", "constant", 1),
        Symbol("A", "class", 4),
        Symbol("run", "method", 5),
        Symbol("inner", "function", 6),
        Symbol("f", "function", 9),
    ]


@pytest.mark.parametrize(
    "text",
    [
        's = """\ndef no(): ...\n"""\ndef yes(): ...\n',
        "x = \"'''\"\ndef yes(): ...\ny = \"'''\"\n",
        '# it\'s """ here\ndef yes(): ...\n',
        "class A:\n    x = 1\nif True:\n    def yes(): ...\n",
        'class A:\n    s = """\nat the margin\n"""\n    def yes(self): ...\n',
        "class A:\n    def f(self): ...\n    if True:\n        def yes(self): ...\n",
    ],
)
def test_what_only_looks_like_a_definition_is_none(text: str) -> None:
    assert outline(text) == list(by_tree(ast.parse(text)))


def test_a_file_that_cannot_be_parsed_still_has_names() -> None:
    text = 'print "old"\ns = """\nclass A:\n    def f(self): ...\n'

    assert python_outline('print "old"\ndef f(): ...\n')[0][0].name == "f"
    assert isinstance(outline(text), list)


def test_the_title_is_the_first_line_of_the_docstring() -> None:
    assert python_outline('#!/x\n\n"""\nWhat it does.\n\nMore.\n"""\n')[1] == "What it does."


def test_lines_say_what_the_tree_says_on_the_standard_library() -> None:
    compared = 0
    for path in sorted(LIBRARY.glob("*.py")) + sorted(LIBRARY.glob("asyncio/*.py")):
        text = path.read_text("utf-8", "replace")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
        try:
            names = list(by_lines(text))
        except NotSure:
            continue
        compared += 1
        assert names == list(by_tree(tree)), path
        assert title_by_lines(text) == title_by_tree(tree), path
    assert compared > 100
