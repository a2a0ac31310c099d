"""Reading in tests: a program, or what is wrong with it."""

import pytest

from weft.language.ast import Node
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import read_program
from weft.language.source import Source


def read(text: str) -> tuple[Node, ...]:
    return read_program(Source("<test>", text)).forms


def read_one(text: str) -> Node:
    [node] = read(text)
    return node


def problems(text: str) -> list[tuple[int, int, str]]:
    """Line, column and code of everything that is wrong."""
    return [(one.span.line, one.span.column, one.code) for one in _refused(text).found]


def messages(text: str) -> str:
    return "\n".join(one.message for one in _refused(text).found)


def _refused(text: str) -> InvalidProgram:
    with pytest.raises(InvalidProgram) as caught:
        read(text)
    return caught.value
