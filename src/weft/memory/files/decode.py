"""Decodes files to text without ever failing: binary files give None, invalid bytes are replaced."""

import codecs
import re

from weft.limits import SURROGATE, is_unicode

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_EXAMINED_BYTES = 8192
"""Number of bytes at the start of a file that show whether it is binary; git examines about as many."""

_PYTHON_DECLARATION = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)", re.MULTILINE)
_XML_DECLARATION = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([-_.a-zA-Z0-9]+)["']""")

_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")

_MANY_CONTROLS = 0.1
"""Content that is not UTF-8 and has a larger share of control characters is taken for binary."""


def decode(content: bytes) -> str | None:
    """Return the text of a file with `\\n` between lines, or None for a binary file."""
    text = _decode_any(content)
    if text is None:
        return None
    if not is_unicode(text):  # an unusual encoding
        text = SURROGATE.sub("?", text)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _decode_any(content: bytes) -> str | None:
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return content[len(mark) :].decode(encoding, "replace")
    if b"\0" in content[:_EXAMINED_BYTES]:
        return None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return _decode_declared(content) or _decode_guessed(content)


def _decode_declared(content: bytes) -> str | None:
    """Decode with the encoding declared in the first lines, as in Python and XML; None if that fails."""
    head = b"\n".join(content[:_EXAMINED_BYTES].splitlines()[:2])
    found = _PYTHON_DECLARATION.search(head) or _XML_DECLARATION.match(head)
    if found is None:
        return None
    try:
        info = codecs.lookup(found[1].decode("ascii"))
    except LookupError:
        return None
    # `hex`, `rot13` and `zlib` are codecs, but not encodings; `idna` is slow, `unicode_escape` unescapes
    # code.
    if not getattr(info, "_is_text_encoding", True) or info.name in {"idna", "unicode-escape", "undefined"}:
        return None
    try:
        return content.decode(info.name, "replace")
    except (UnicodeError, ValueError):
        return None


def _decode_guessed(content: bytes) -> str | None:
    """Decode as UTF-8 if most of it is valid UTF-8, else as Windows-1252; None if it looks binary."""
    if len(_CONTROL_CHARACTER.findall(content[:_EXAMINED_BYTES].decode("latin-1"))) > _MANY_CONTROLS * min(
        len(content), _EXAMINED_BYTES
    ):
        return None
    replaced = content.decode("utf-8", "replace")
    bad = replaced.count("\ufffd")
    not_ascii = len(content) - len(content.translate(None, bytes(range(128, 256))))
    if bad * 4 < not_ascii:  # UTF-8 with a few invalid bytes
        return replaced
    return content.decode("cp1252", "replace")
