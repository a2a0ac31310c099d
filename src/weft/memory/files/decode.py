"""Bytes of files as text. It never fails: what cannot be read as text is said to be binary, or replaced."""

import codecs
import re

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16: its mark begins with that one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_LOOKED_AT = 8192
"""How much of a file is looked at for NUL bytes: as git does."""

_PYTHON_DECLARATION = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)", re.MULTILINE)
_XML_DECLARATION = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([-_.a-zA-Z0-9]+)["']""")

_NO_TEXT = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")

_MANY_CONTROLS = 0.1
"""Text that is no UTF-8 and has more control characters than this is some program's data."""


def decode(content: bytes) -> str | None:
    """The text of a file with `\\n` between lines; None when it is no text."""
    text = _decoded(content)
    if text is None or "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decoded(content: bytes) -> str | None:
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    if b"\0" in content[:_LOOKED_AT]:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return _declared(content) or _guessed(content)


def _declared(content: bytes) -> str | None:
    """The text in the encoding that its first lines name, as Python and XML do; None when they do not."""
    head = b"\n".join(content[:_LOOKED_AT].splitlines()[:2])
    found = _PYTHON_DECLARATION.search(head) or _XML_DECLARATION.match(head)
    if found is None:
        return None
    try:
        info = codecs.lookup(found[1].decode("ascii"))
    except LookupError:
        return None
    # `hex`, `rot13` and `zlib` are codecs, but no encodings; `idna` is slow, `unicode_escape` makes text of
    # code.
    if not getattr(info, "_is_text_encoding", True) or info.name in {"idna", "unicode-escape", "undefined"}:
        return None
    try:
        return content.decode(info.name, "replace")
    except (UnicodeError, ValueError):
        return None


def _guessed(content: bytes) -> str | None:
    """UTF-8 with replacements when most of it is, else Windows Latin; None when it looks like neither."""
    if len(_NO_TEXT.findall(content[:_LOOKED_AT].decode("latin-1"))) > _MANY_CONTROLS * min(
        len(content), _LOOKED_AT
    ):
        return None
    replaced = content.decode("utf-8", "replace")
    bad = replaced.count("\ufffd")
    others = len(content) - len(content.translate(None, bytes(range(128, 256))))
    if bad * 4 < others:  # a few broken places in a text that is UTF-8 otherwise
        return replaced
    return content.decode("cp1252", "replace")
