"""The forms in which a secret can appear in a text: raw, escaped, quoted or encoded."""

import base64
import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

MIN_LINE_CHARACTERS = 16
"""Shortest line of a multi-line value, such as a key file, that is also redacted where it occurs alone."""

_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")
_PERCENT_ESCAPE = re.compile(r"%[0-9A-F]{2}")
_NOT_ALPHANUMERIC = re.compile(r"[^A-Za-z0-9]")
_SHELL_SPECIAL = re.compile(r"([^A-Za-z0-9_./:=@%+,-])")

_BASH_SPECIAL = re.compile(r"""(^[~#]|(?<=[:=])~|[ \t'"\\|&;()<>!{}*\[\]?^$`])""")
"""Characters that bash's `printf %q` escapes with a backslash; some versions escape commas too."""

_SHARED_CHARACTERS = (0, 2, 3)
"""Number of leading base64 characters that also depend on the bytes before a value, which begins 0, 1 or 2
bytes after a multiple of three."""


def literal_forms(value: str) -> set[str]:
    """Return the value, its forms in JSON, HTML, URLs, Python and shells, and its long lines."""
    forms = {value, *_json_forms(value), *_url_forms(value), *_html_forms(value), *_quoted_forms(value)}
    forms |= set(_nested_forms(value))
    for line in value.splitlines():
        stripped = line.strip()
        if len(stripped) >= MIN_LINE_CHARACTERS and not stripped.startswith("-----"):
            forms.add(stripped)
    return forms


def encoded_forms(value: str) -> set[str]:
    """Return the value in hexadecimal and base64, without the characters that depend on adjacent bytes."""
    raw = _bytes(value)
    wide = value.encode("utf-16-le", "surrogatepass")  # the encoding of PowerShell
    return {raw.hex(), raw.hex().upper(), *_base64_forms(raw), *_base64_forms(wide)}


def wrapped_pattern(form: str) -> str:
    """Return a pattern for an encoded form that may be divided by line breaks, raw or written as `\\n`.

    It also matches the base64 character before and after the form, which may hold a few bits of the value.
    """
    broken = r"(?:\s|\\r|\\n)*"
    return rf"[A-Za-z0-9+/_-]?{broken.join(map(re.escape, form))}[A-Za-z0-9+/_-]?=*"


def _json_forms(value: str) -> Iterator[str]:
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield text
        yield text.replace("/", "\\/")
        yield json.dumps(text)[1:-1]
        yield _UNICODE_ESCAPE.sub(lambda found: "\\u" + found[0][2:].upper(), text)
        for_html = text
        for character in "<>&'":
            for_html = for_html.replace(character, f"\\u{ord(character):04x}")
        yield for_html


def _nested_forms(value: str) -> Iterator[str]:
    """Yield forms that are escaped repeatedly: JSON in JSON in JSON, JSON in a Python repr, URLs in URLs."""
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield json.dumps(json.dumps(text)[1:-1])[1:-1]
        yield repr(text)[1:-1]
        yield repr(f"'{text}")[2:-1]  # Python escapes one kind of quotes if a text has both
        yield repr(f"'\"{text}")[4:-1]
        yield from _url_forms(text)
    yield repr(repr(value))[2:-2]
    yield repr(repr(value)[1:-1])[1:-1]
    yield repr(f"'{repr(value)[1:-1]}")[2:-1]
    for text in _url_forms(value):
        yield from _url_forms(text)


def _url_forms(value: str) -> Iterator[str]:
    for text in (
        quote(value, safe="", errors="replace"),
        quote(value, errors="replace"),
        quote_plus(value, errors="replace"),
        quote(value, safe="/:?#[]@!$&'()*+,;=", errors="replace"),
        _NOT_ALPHANUMERIC.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), value),
    ):
        yield text
        yield _PERCENT_ESCAPE.sub(lambda found: found[0].lower(), text)


def _html_forms(value: str) -> Iterator[str]:
    yield html.escape(value, quote=False)
    quoted = html.escape(value)
    yield quoted
    yield html.escape(value, quote=False).replace('"', "&quot;")
    yield quoted.replace("&#x27;", "&#39;")
    yield quoted.replace("&#x27;", "&apos;")
    yield quoted.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")


def _quoted_forms(value: str) -> Iterator[str]:
    yield repr(value)[1:-1]
    yield ascii(value)[1:-1]
    yield repr(_bytes(value))[2:-1]
    yield value.replace("'", "'\"'\"'")
    yield value.replace("'", "'\\''")
    yield value.replace("'", "\\'")
    yield value.replace('"', '\\"')
    yield _SHELL_SPECIAL.sub(r"\\\1", value)
    yield _BASH_SPECIAL.sub(r"\\\1", value)
    yield _BASH_SPECIAL.sub(r"\\\1", value).replace(",", "\\,")
    yield value.replace("'", "''")


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _base64_forms(raw: bytes) -> Iterator[str]:
    for offset, dropped in enumerate(_SHARED_CHARACTERS):
        encoded = base64.b64encode(bytes(offset) + raw).decode("ascii")
        own_characters = encoded[dropped : (offset + len(raw)) * 8 // 6]
        yield own_characters
        yield own_characters.replace("+", "-").replace("/", "_")
        yield quote(own_characters, safe="")
        yield own_characters.replace("/", "\\/")
