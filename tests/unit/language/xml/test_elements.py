"""Documents in any usual encoding; what cannot be decoded is refused."""

import codecs

import pytest

from tests.unit.language.xml.builders import problem, problems
from weft.language.ast import Atomic
from weft.language.source import Source
from weft.language.xml import read_xml
from weft.limits import MAX_PROGRAM_CHARACTERS

TEXT = "<task><description>Größe</description></task>"
GREEK = "<task><description>αβγ</description></task>"


def declared(encoding: str, text: str = TEXT) -> str:
    return f'<?xml version="1.0" encoding="{encoding}"?>\n{text}'


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        codecs.BOM_UTF8 + declared("UTF-8").encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + declared("UTF-16").encode("utf-16-be"),
        declared("UTF-16").encode("utf-16-le"),
        declared("utf-16").encode("utf-16-be"),
        declared("ISO-8859-1").encode("latin-1"),
        declared("latin-1").encode("latin-1"),
        declared("windows-1252").encode("cp1252"),
        declared("GB18030").encode("gb18030"),
    ],
    ids=range(11),
)
def test_an_encoding_is_known_by_its_mark_or_its_declaration(content: bytes) -> None:
    (task,) = read_xml(Source("t.xml", ""), content).forms
    assert isinstance(task, Atomic)
    assert task.description is not None
    assert task.description.raw == "Größe"


def test_places_refer_to_the_decoded_text() -> None:
    refused = problems(declared("iso-8859-7", GREEK.replace("</task>", "<x/></task>")).encode("iso-8859-7"))
    assert [str(one.span) for one in refused] == ["t.xml:2:37"]
    assert "αβγ" in refused[0].excerpt()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (TEXT.encode("latin-1"), "t.xml:1: syntax-error: not utf-8: invalid start byte"),
        (b"<task>\n\xff</task>", "t.xml:2: syntax-error: not utf-8"),
        (declared("utf-7").encode("utf-7"), "declares encoding 'utf-7', which is not supported"),
        (
            declared("rot13").encode(),
            "declares encoding 'rot13', which is not supported; save the file as UTF-8",
        ),
        (declared("no-such").encode(), "declares encoding 'no-such', which is not supported"),
        (declared("UTF-16").encode(), "declares encoding 'UTF-16', but the bytes are not"),
        (codecs.BOM_UTF16_LE + b"<", "t.xml:1: syntax-error: not utf-16-le: truncated data"),
        (codecs.BOM_UTF16_LE + "<task>\ud800</task>".encode("utf-16-le", "surrogatepass"), "not utf-16-le"),
        (b"<task>\0</task>", "syntax-error: not well-formed"),
        (b"", "the document is empty"),
        (b" \n<?xml version='1.0'?><task/>", "t.xml:2:1: syntax-error: XML or text declaration not at start"),
    ],
    ids=range(11),
)
def test_what_cannot_be_decoded_is_refused(content: bytes, expected: str) -> None:
    assert expected in problem(content)


def test_a_document_beyond_the_size_is_refused_before_it_is_decoded() -> None:
    content = b"\xff" * (MAX_PROGRAM_CHARACTERS + 1)
    assert "program-too-long: 16777217 bytes are more than the 16777216 allowed" in problem(content)


def test_a_text_of_more_than_ten_million_characters_is_read() -> None:
    text = "x" * 11_000_000

    program = read_xml(Source("t.xml", ""), f"<task><description>{text}</description></task>".encode())

    (task,) = program.forms
    assert isinstance(task, Atomic)
    assert task.description is not None
    assert task.description.raw == text
