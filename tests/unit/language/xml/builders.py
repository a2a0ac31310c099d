"""Short ways to read XML in tests."""

from weft.language.ast import Node, Program
from weft.language.diagnostics import InvalidProgram, LanguageProblem
from weft.language.source import Source
from weft.language.xml import read_xml


def read(text: str) -> Program:
    return read_xml(Source("t.xml", ""), text.encode())


def read_one(text: str) -> Node:
    (form,) = read(text).forms
    return form


def problems(text: str | bytes) -> list[LanguageProblem]:
    """Return what is wrong with a document; empty if it can be read."""
    try:
        read_xml(Source("t.xml", ""), text if isinstance(text, bytes) else text.encode())
    except InvalidProgram as refused:
        return list(refused.found)
    return []


def problem(text: str | bytes) -> str:
    """Return the only problem of a document."""
    (only,) = problems(text)
    return str(only)
