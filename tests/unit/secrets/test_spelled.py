"""Secrets that are quoted twice, spelled byte by byte, or dumped."""

import base64
import html
import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.secrets.registry import Registry

VALUES = [
    "hunter2+/\"pw&<é>'tail-9000",
    "sk-plainkey0123456789abcdef",
    "pa ss$word!`x`%20~99",
    "~x,{y}=~#[z]^|;(1)\\2*?",
    "cafe0123456789abcdefbeef",
]


def known(*values: str) -> Registry:
    made = Registry()
    for number, value in enumerate(values):
        made.register(value, f"K{number}")
    return made


def spellings(value: str) -> Iterator[tuple[str, str]]:
    raw = value.encode()
    yield "spaces", raw.hex(" ")
    yield "colons", raw.hex(":").upper()
    yield "dashes", raw.hex("-")
    yield "commas", ", ".join(f"{byte:02x}" for byte in raw)
    yield "0x", " ".join(f"0x{byte:02x}" for byte in raw)
    yield "0x in C", ", ".join(f"0x{byte:02X}" for byte in raw)
    yield "\\x", "".join(f"\\x{byte:02x}" for byte in raw)
    yield "\\x in JSON", json.dumps("".join(f"\\x{byte:02x}" for byte in raw))
    yield "groups of two", re.sub("(....)", r"\1 ", raw.hex())
    yield "lines", re.sub("(" + "." * 24 + ")", r"\1\n", raw.hex(" "))
    yield "percent", "".join(f"%{byte:02X}" for byte in raw)
    yield "percent lower", "".join(f"%{byte:02x}" for byte in raw)
    yield "percent twice", "".join(f"%25{byte:02X}" for byte in raw)
    yield "base32", base64.b32encode(raw).decode()
    yield "base32 in the middle", base64.b32encode(b"abc" + raw + b"z").decode()
    yield "UTF-16 base64", base64.b64encode(value.encode("utf-16-le")).decode()
    yield "UTF-16 base64 in the middle", base64.b64encode(f"a{value}b".encode("utf-16-le")).decode()
    if value.isascii():
        yield "\\u", "".join(f"\\u{ord(one):04x}" for one in value)
        yield "\\u in JSON", json.dumps("".join(f"\\u{ord(one):04X}" for one in value))
        yield "decimal entities", "".join(f"&#{ord(one)};" for one in value)
        yield "hexadecimal entities", "".join(f"&#x{ord(one):x};" for one in value)


def quotings(value: str) -> Iterator[tuple[str, str]]:
    yield "printf %q", printed("bash", "-c", 'printf %q "$1"', "x", value)
    yield "JSON three deep", json.dumps(json.dumps(json.dumps(value)))
    yield "repr of JSON", repr(json.dumps(value))
    yield "repr of JSON in an object", repr(json.dumps({"it's": value}))
    yield "repr of repr", repr(repr(value))
    yield "attribute", f"<a b={quoteattr(value)}/>"
    yield "HTML", html.escape(value)
    yield "URL twice", urllib.parse.quote(urllib.parse.quote(value, safe=""), safe="")
    yield (
        "URL, all but letters",
        re.sub("[^A-Za-z0-9]", lambda one: "".join(f"%{byte:02x}" for byte in one[0].encode()), value),
    )


def printed(*argv: str, given: bytes = b"") -> str:
    return subprocess.run(argv, input=given, capture_output=True, check=True).stdout.decode(
        "utf-8", "replace"
    )


def like_xxd(raw: bytes, group: int = 2) -> str:
    lines = []
    for start in range(0, len(raw), 16):
        row = raw[start : start + 16]
        groups = " ".join(row[at : at + group].hex() for at in range(0, len(row), group))
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}: {groups:39}  {shown}")
    return "\n".join(lines) + "\n"


def like_hexdump(raw: bytes) -> str:
    lines = []
    for start in range(0, len(raw), 16):
        row = raw[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row[:8].hex(' '):23}  {row[8:].hex(' '):23}  |{shown}|")
    return "\n".join([*lines, f"{len(raw):08x}\n"])


@pytest.mark.parametrize("value", VALUES)
def test_it_is_found_however_it_is_written(value: str) -> None:
    made = known(value)
    for how, text in [*spellings(value), *quotings(value)]:
        shown = made.redact(f"see {text} here")
        assert "[secret K0]" in shown, (how, shown)
        assert len(shown) < 60, (how, shown)
        assert made.redact_json({"a": [f"see {text} here"]}) == {"a": [shown]}, how


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("before", [0, 1, 7, 13, 14])
def test_dumps(value: str, before: int) -> None:
    made = known(value)
    raw = b"." * before + value.encode() + b".." * 20
    dumps = {
        "xxd": like_xxd(raw),
        "xxd -g4": like_xxd(raw, 4),
        "xxd -g1": like_xxd(raw, 1),
        "hexdump -C": like_hexdump(raw),
        "od": printed("od", given=raw),
        "od -x": printed("od", "-x", given=raw),
        "od -An -tx1": printed("od", "-An", "-tx1", given=raw),
        "od -b": printed("od", "-b", given=raw),
    }
    if value.isascii() and " " not in value:
        dumps["od -c"] = printed("od", "-c", given=raw)
    for how, text in dumps.items():
        shown = made.redact(f"$ dump\n{text}done")
        assert "[secret K0]" in shown, (how, text)
        left = "".join(line for line in shown.splitlines() if "[secret" not in line)
        assert value[2:8] not in left, (how, left)
        assert value.encode()[4:8].hex() not in left.replace(" ", ""), (how, left)
        assert made.redact_json([text]) != [text], how


def test_what_is_around_stays() -> None:
    made = known("sk-plainkey0123456789abcdef")
    spelled = b"sk-plainkey0123456789abcdef".hex(" ")

    assert made.redact(f"aa bb {spelled} cc dd") == "aa bb [secret K0] cc dd"
    for text in (
        "2026-11-16 06:20:26,123 00:1a:2b:3c:4d:5e",
        like_xxd(b"nothing to hide here at all"),
        "%20%21%22" * 9,
    ):
        assert made.redact(text) == text


def test_two_of_them() -> None:
    made = known("first-secret-1", "second-secret-2")
    text = b"first-secret-1 and second-secret-2".hex(":")

    assert made.redact(text) == f"[secret K0]:{b' and '.hex(':')}:[secret K1]"


@settings(deadline=None)
@given(st.text(alphabet="0123456789abcdef %\\xu&#;:,\n-0", max_size=300))
def test_texts_that_look_like_it_stay(text: str) -> None:
    assert known("Zq7!Lw2Tn-pX9").redact(text) == text
