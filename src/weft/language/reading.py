"""Parse programs in XML or S-expressions, with detection of the syntax."""

import re
from typing import Literal

from weft.language.ast import Program
from weft.language.diagnostics import invalid_program
from weft.language.sexp import read_program
from weft.language.source import Source, Span

Surface = Literal["xml", "sexp"]

_MARKUP = re.compile(rb"[\s\xef\xbb\xbf]*<")


def read_text(text: str, name: str, surface: Surface | None = None) -> Program:
    """Parse a program. Without a surface, text that begins with `<` is XML. Raise InvalidProgram."""
    return read_bytes(text.encode("utf-8", "surrogatepass"), name, surface)


def read_bytes(content: bytes, name: str, surface: Surface | None = None) -> Program:
    """Parse the content of a file as `read_text` parses a string."""
    if (surface or ("xml" if _MARKUP.match(content) else "sexp")) == "xml":
        # Imported here: lxml is slow to import, and many processes read no XML.
        from weft.language.xml import read_xml

        return read_xml(Source(name, ""), content)
    try:
        return read_program(Source(name, content.decode("utf-8")))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"the text is not UTF-8: {error.reason}"
        raise invalid_program(Span(Source(name, ""), line, 0), "syntax-error", message) from None
