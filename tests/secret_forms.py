"""Where a secret can hide: forms that tests look for, made by other means than the code under test."""

import base64
import binascii
import codecs
import html
import json
import re
import shlex
import urllib.parse
from collections.abc import Iterator

NEIGHBOURS = (b"", b"a", b"ab", b"user:", b"Bearer ", b'{"key":"')


def forms_of(value: str) -> Iterator[tuple[str, str]]:
    """Texts that say the value, and how."""
    raw = value.encode()
    yield "raw", value
    yield "json", json.dumps({"key": value})
    yield "json utf-8", json.dumps({"key": value}, ensure_ascii=False)
    yield "json in json", json.dumps(json.dumps({"key": value}))
    yield "url", urllib.parse.urlencode({"key": value})
    yield "url path", f"https://example.org/{urllib.parse.quote(value, safe='')}/x"
    yield "url lower", re.sub("%..", lambda found: found[0].lower(), urllib.parse.quote(value, safe=""))
    yield "html", html.escape(value)
    yield "html decimal", html.escape(value).replace("&#x27;", "&#39;")
    yield "repr", repr({"key": value})
    yield "repr of bytes", repr(raw)
    yield "shell", shlex.join(["curl", "-H", value])
    yield "hex", raw.hex()
    yield "hex upper", raw.hex().upper()
    yield "hex in the middle", b"before".hex() + raw.hex() + b"after".hex()
    for before in NEIGHBOURS:
        for after in (b"", b"\n", b"xy", b'"}'):
            text = before + raw + after
            yield f"base64 {before!r} {after!r}", base64.b64encode(text).decode()
            yield f"urlsafe {before!r} {after!r}", base64.urlsafe_b64encode(text).decode()
            yield f"wrapped {before!r} {after!r}", codecs.encode(b"0" * 40 + text, "base64").decode()
            yield (
                f"json of wrapped {before!r}",
                json.dumps(codecs.encode(b"0" * 40 + text, "base64").decode()),
            )
            yield f"uuencoded alphabet {before!r}", binascii.b2a_base64(text, newline=False).decode()


def decoded_parts(text: str) -> Iterator[str]:
    """Yield the text, and what its base64 and hexadecimal parts decode to: what a thief would try."""
    yield text
    yield urllib.parse.unquote_plus(text)
    yield html.unescape(text)
    joined = text.replace("\\n", "").replace("\n", "")
    for candidate in (text, joined):
        for run in re.findall(r"[A-Za-z0-9+/_-]{6,}", candidate):
            yield from _decoded(run)


def _decoded(run: str) -> Iterator[str]:
    plain = run.replace("-", "+").replace("_", "/")
    for start in range(min(4, len(plain))):
        part = plain[start:]
        part = part[: len(part) // 4 * 4]
        yield base64.b64decode(part).decode("utf-8", "replace")
    for start in range(min(2, len(plain))):
        part = plain[start:]
        part = part[: len(part) // 2 * 2]
        try:
            yield bytes.fromhex(part).decode("utf-8", "replace")
        except ValueError:
            continue


def is_told(value: str, text: str) -> bool:
    """Whether somebody who reads the text can read the value."""
    return any(value in part for part in decoded_parts(text))


def shows_part(value: str, text: str, least: int = 5) -> bool:
    """Whether some characters of the value, one after the other, are in the text."""
    return any(value[start : start + least] in text for start in range(len(value) - least + 1))
