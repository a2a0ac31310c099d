"""Read a document as elements with exact locations, safe from hostile input.

expat reads it, because it tells line and column of every element, and calls us at a DOCTYPE before it has
read what is in it, and at every level of nesting.
"""

import codecs
import re
from typing import Final
from xml.parsers import expat  # nosec: a DOCTYPE ends the reading, so there is nothing to expand

from msgspec import Struct

from weft.language.diagnostics import InvalidProgram, nearest, refuse
from weft.language.source import Source, Span
from weft.language.xml.text import shown
from weft.limits import MAX_PROGRAM_CHARACTERS

MAX_ELEMENT_DEPTH = 200
"""Deepest nesting of elements: a hundred nested tasks. libxml2, which holds documents against the schema,
ends at 256 in its older versions."""

MAX_ATTRIBUTES = 64
"""Most attributes of an element: far beyond the schema. libxml2 compares each with all others."""

ROOTS: Final = ("program", "template", "task", "call", "cond", "director_evaluator_loop")
"""What a document can be."""

_PLACED: Final = ("test", "from")
"""Attributes whose text is read further, so that a mistake in it has a place of its own."""

_ATTRIBUTE = re.compile(rb"""([^\s=<>"'/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


class Element(Struct):
    """An element; what the schema does not know is taken out before it is read."""

    tag: str
    attributes: dict[str, str]
    span: Span
    is_preserved: bool
    """`xml:space="preserve"` here or around."""
    children: list["Element"]
    pieces: list[str]
    """The character data, in the pieces the parser gave."""
    text_span: Span
    """Where the character data begins."""
    places: dict[str, Span]
    """Where the values of some attributes begin."""
    is_damaged: bool = False
    """Something was taken out: what is missing now may have been meant."""

    @property
    def text(self) -> str:
        """The character data directly in this element."""
        return "".join(self.pieces)

    def child(self, tag: str) -> "Element | None":
        """The first child of that name."""
        for one in self.children:
            if one.tag == tag:
                return one
        return None


def parse_elements(source: Source) -> Element:
    """The root of a document; raises InvalidProgram at the first thing that is not XML or not allowed."""
    builder = _Builder(source)
    try:
        builder.parser.Parse(builder.content, True)
    except expat.ExpatError as error:
        place = Span(source, error.lineno, error.offset + 1)
        raise refuse(place, "syntax-error", builder.explained(expat.ErrorString(error.code))) from None
    return builder.root


class _Builder:
    """What expat calls."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.content = source.text.encode()
        self.open: list[Element] = []
        self.parser = expat.ParserCreate(
            "utf-8"
        )  # whatever the declaration says: the text is decoded already
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters

    @property
    def here(self) -> Span:
        return Span(self.source, self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1)

    def refuse_doctype(self, *_: object) -> None:
        before = self.content[: self.parser.CurrentByteIndex].rpartition(b"<!DOCTYPE")[0].decode()
        place = Span(self.source, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise refuse(place, "xml-doctype", "a DOCTYPE is not allowed: weft documents have no DTD; remove it")

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        around = self.open[-1] if self.open else None
        if around is None and tag not in ROOTS:
            raise refuse(self.here, "unknown-element", _unknown_root(tag, attributes))
        if len(self.open) == MAX_ELEMENT_DEPTH:
            message = f"elements nest more than {MAX_ELEMENT_DEPTH} deep"
            raise refuse(self.here, "program-too-deep", message)
        if len(attributes) > MAX_ATTRIBUTES:
            raise refuse(self.here, "syntax-error", f"more than {MAX_ATTRIBUTES} attributes on one element")
        space = attributes.get("xml:space")
        is_preserved = space == "preserve" or (space is None and around is not None and around.is_preserved)
        here = self.here
        places = {name: self.value_place(name) for name in attributes if name in _PLACED}
        element = Element(tag, attributes, here, is_preserved, [], [], here, places)
        if around is None:
            self.root = element
        else:
            around.children.append(element)
        self.open.append(element)

    def end(self, _: str) -> None:
        self.open.pop()

    def characters(self, piece: str) -> None:
        element = self.open[-1]
        if not element.pieces:
            element.text_span = self.here
        element.pieces.append(piece)

    def value_place(self, name: str) -> Span:
        """Where the value of an attribute begins in the tag that starts here."""
        here, offset = self.here, self.parser.CurrentByteIndex
        for found in _ATTRIBUTE.finditer(self.content, offset):
            if found[1] == name.encode():
                before = self.content[offset : max(found.start(2), found.start(3))].decode()
                lines = before.count("\n")
                column = len(before) - before.rfind("\n") if lines else here.column + len(before)
                return Span(self.source, here.line + lines, column)
        return here

    def explained(self, reason: str) -> str:
        """The parser's words, with the element that was open."""
        if not self.open:
            return "the document is empty" if reason == "no element found" else reason
        around = self.open[-1]
        return f"{reason}; <{shown(around.tag)}> of line {around.span.line} is open here"


def _unknown_root(tag: str, attributes: dict[str, str]) -> str:
    words = ", ".join(f"<{root}>" for root in ROOTS)
    hint = "; elements of weft have no namespace: remove xmlns" if "xmlns" in attributes or ":" in tag else ""
    return f"<{shown(tag)}> is no weft document: expected one of {words}{hint or nearest(shown(tag), ROOTS)}"


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UNMARKED: Final = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]{0,40})["']""")
_KNOWN: Final = frozenset(
    {
        *("ascii", "utf-8", "koi8-r", "koi8-u", "cp932", "shift_jis", "euc_jp", "euc_kr"),
        *("gb2312", "gbk", "gb18030", "big5"),
        *(f"iso8859-{number}" for number in range(1, 17)),
        *(f"cp{number}" for number in range(1250, 1259)),
    }
)
"""By Python's names. Its other codecs are no encodings of files, or (utf-7) a way to hide markup."""


def decoded(name: str, content: bytes) -> Source:
    """The text of a document by its byte order mark, its declaration, or as UTF-8."""
    nowhere = Source(name, "")
    if len(content) > MAX_PROGRAM_CHARACTERS:
        message = f"{len(content)} bytes are more than the {MAX_PROGRAM_CHARACTERS} allowed"
        raise refuse(Span(nowhere, 1, 0), "program-too-long", message)
    encoding, start = _encoding(nowhere, content)
    try:
        return Source(name, content[start:].decode(encoding))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, start + error.start) + 1
        raise refuse(Span(nowhere, line, 0), "syntax-error", f"not {encoding}: {error.reason}") from None


def _encoding(source: Source, content: bytes) -> tuple[str, int]:
    """The encoding, by Python's name, and where the text begins."""
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            return encoding, len(mark)
    for beginning, encoding in _UNMARKED:
        if content.startswith(beginning):
            return encoding, 0
    declared = _DECLARED.match(content)
    return (_python_name(source, declared[1].decode()) if declared else "utf-8"), 0


def _python_name(source: Source, declared: str) -> str:
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        name = ""
    if name in _KNOWN:
        return name
    raise _unreadable(source, declared, name)


def _unreadable(source: Source, declared: str, name: str) -> InvalidProgram:
    is_wide = name.startswith(("utf-16", "utf-32"))
    reason = "but the bytes are not" if is_wide else "which is not read here; save the file as UTF-8"
    return refuse(
        Span(source, 1, 1), "syntax-error", f"the document declares encoding '{declared}', {reason}"
    )
