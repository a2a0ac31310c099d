"""Parse a document into elements with exact locations, safely for hostile input.

expat is used because it gives line and column of every element, and calls handlers at each level of nesting
and at a DOCTYPE before its contents are parsed.
"""

import codecs
import re
from typing import Final
from xml.parsers import expat  # nosec: a DOCTYPE is refused, so there is nothing to expand

from msgspec import Struct

from weft.language.diagnostics import invalid_program, nearest
from weft.language.source import Source, Span
from weft.language.xml.text import shown
from weft.limits import MAX_PROGRAM_CHARACTERS

MAX_ELEMENT_DEPTH = 200
"""Maximum nesting of elements: a hundred nested tasks. libxml2, which validates documents against the schema,
stops at 256 in older versions."""

MAX_ATTRIBUTES = 64
"""Maximum number of attributes, far more than the schema has. libxml2 takes quadratic time for them."""

ROOTS: Final = ("program", "template", "task", "call", "cond", "director_evaluator_loop")
"""Possible root elements."""

_LOCATED: Final = ("test", "from")
"""Attributes with values that are parsed further, so that problems in them have exact locations."""

_ATTRIBUTE = re.compile(rb"""([^\s=<>"'/]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


class Element(Struct):
    """An XML element. `check_elements` removes parts that the schema does not allow."""

    tag: str
    attributes: dict[str, str]
    span: Span
    is_preserved: bool
    """Whether `xml:space="preserve"` is set here or on an ancestor."""
    children: list["Element"]
    pieces: list[str]
    """The character data directly in this element, in the pieces given by expat."""
    text_span: Span
    """Location of the first piece; of the element, if it has no character data."""
    value_spans: dict[str, Span]
    """Locations of the values of `_LOCATED` attributes."""
    is_damaged: bool = False
    """Whether invalid content was removed: a missing field may have been part of it."""

    @property
    def text(self) -> str:
        """Return all pieces of character data."""
        return "".join(self.pieces)

    def child(self, tag: str) -> "Element | None":
        """Return the first child with this tag, or None."""
        for one in self.children:
            if one.tag == tag:
                return one
        return None


def parse_elements(source: Source) -> Element:
    """Return the root element; raise InvalidProgram at the first syntax error or violation of a limit."""
    builder = _Builder(source)
    try:
        builder.parser.Parse(builder.content, True)
    except expat.ExpatError as error:
        span = Span(source, error.lineno, error.offset + 1)
        raise invalid_program(span, "syntax-error", builder.explain(expat.ErrorString(error.code))) from None
    return builder.root


class _Builder:
    """Builds the tree of elements; expat calls its methods while it parses."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.content = source.text.encode()
        self.open: list[Element] = []
        self.parser = expat.ParserCreate("utf-8")  # overrides the declaration: the text is already decoded
        self.parser.StartDoctypeDeclHandler = self.refuse_doctype
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters

    @property
    def here(self) -> Span:
        return Span(self.source, self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1)

    def refuse_doctype(self, *_: object) -> None:
        before = self.content[: self.parser.CurrentByteIndex].rpartition(b"<!DOCTYPE")[0].decode()
        span = Span(self.source, before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise invalid_program(
            span, "xml-doctype", "a DOCTYPE is not allowed: weft documents have no DTD; remove it"
        )

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        around = self.open[-1] if self.open else None
        if around is None and tag not in ROOTS:
            raise invalid_program(self.here, "unknown-element", _unknown_root(tag, attributes))
        if len(self.open) == MAX_ELEMENT_DEPTH:
            message = f"elements nest more than {MAX_ELEMENT_DEPTH} deep"
            raise invalid_program(self.here, "program-too-deep", message)
        if len(attributes) > MAX_ATTRIBUTES:
            raise invalid_program(
                self.here, "syntax-error", f"more than {MAX_ATTRIBUTES} attributes on one element"
            )
        space = attributes.get("xml:space")
        is_preserved = space == "preserve" or (space is None and around is not None and around.is_preserved)
        here = self.here
        value_spans = {name: self.value_span(name) for name in attributes if name in _LOCATED}
        element = Element(tag, attributes, here, is_preserved, [], [], here, value_spans)
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

    def value_span(self, name: str) -> Span:
        """Return the location of an attribute's value in the start tag at the current position."""
        here, offset = self.here, self.parser.CurrentByteIndex
        for found in _ATTRIBUTE.finditer(self.content, offset):
            if found[1] == name.encode():
                before = self.content[offset : max(found.start(2), found.start(3))].decode()
                lines = before.count("\n")
                column = len(before) - before.rfind("\n") if lines else here.column + len(before)
                return Span(self.source, here.line + lines, column)
        return here

    def explain(self, reason: str) -> str:
        """Return expat's message with the innermost open element added."""
        if not self.open:
            return "the document is empty" if reason == "no element found" else reason
        around = self.open[-1]
        return f"{reason}; <{shown(around.tag)}> of line {around.span.line} is still open here"


def _unknown_root(tag: str, attributes: dict[str, str]) -> str:
    words = ", ".join(f"<{root}>" for root in ROOTS)
    hint = "; elements of weft have no namespace: remove xmlns" if "xmlns" in attributes or ":" in tag else ""
    return (
        f"<{shown(tag)}> is not a weft document: expected one of {words}{hint or nearest(shown(tag), ROOTS)}"
    )


_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_UTF16_BEGINNINGS: Final = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z][A-Za-z0-9._-]{0,40})["']""")
_SUPPORTED_ENCODINGS: Final = frozenset(
    {
        *("ascii", "utf-8", "koi8-r", "koi8-u", "cp932", "shift_jis", "euc_jp", "euc_kr"),
        *("gb2312", "gbk", "gb18030", "big5"),
        *(f"iso8859-{number}" for number in range(1, 17)),
        *(f"cp{number}" for number in range(1250, 1259)),
    }
)
"""Encodings that a document may declare, by Python's names. Other codecs are not encodings of files, or
(utf-7) can hide markup."""


def decode(name: str, content: bytes) -> Source:
    """Decode a document by its byte order mark, its declaration, or as UTF-8. Raise InvalidProgram."""
    nowhere = Source(name, "")
    if len(content) > MAX_PROGRAM_CHARACTERS:
        message = f"{len(content)} bytes are more than the {MAX_PROGRAM_CHARACTERS} allowed"
        raise invalid_program(Span(nowhere, 1, 0), "program-too-long", message)
    encoding, start = _detect_encoding(nowhere, content)
    try:
        return Source(name, content[start:].decode(encoding))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, start + error.start) + 1
        raise invalid_program(
            Span(nowhere, line, 0), "syntax-error", f"not {encoding}: {error.reason}"
        ) from None


def _detect_encoding(source: Source, content: bytes) -> tuple[str, int]:
    """Return Python's name of the encoding, and the byte offset at which the text starts."""
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            return encoding, len(mark)
    for beginning, encoding in _UTF16_BEGINNINGS:
        if content.startswith(beginning):
            return encoding, 0
    declared = _DECLARED.match(content)
    return (_python_name(source, declared[1].decode()) if declared else "utf-8"), 0


def _python_name(source: Source, declared: str) -> str:
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        name = ""
    if name in _SUPPORTED_ENCODINGS:
        return name
    is_wide = name.startswith(("utf-16", "utf-32"))
    reason = "but the bytes are not" if is_wide else "which is not supported; save the file as UTF-8"
    message = f"the document declares encoding '{declared}', {reason}"
    raise invalid_program(Span(source, 1, 1), "syntax-error", message)
