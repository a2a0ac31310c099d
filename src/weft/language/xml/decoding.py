"""Bytes of a document to text."""

import codecs
import re
from typing import Final

from weft.language.problems import InvalidProgram, refuse
from weft.language.spans import Source, Span
from weft.limits import MAX_PROGRAM_CHARACTERS

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
