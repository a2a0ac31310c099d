"""Secrets that are quoted twice, or encoded as Windows does it."""

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


def quotings(value: str) -> Iterator[tuple[str, str]]:
    yield "UTF-16 base64", base64.b64encode(value.encode("utf-16-le")).decode()
    yield "UTF-16 base64 in the middle", base64.b64encode(f"a{value}b".encode("utf-16-le")).decode()
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


@pytest.mark.parametrize("value", VALUES)
def test_it_is_found_however_it_is_written(value: str) -> None:
    made = known(value)
    for how, text in quotings(value):
        shown = made.redact(f"see {text} here")
        assert "[secret K0]" in shown, (how, shown)
        assert len(shown) < 60, (how, shown)
        assert made.redact_json({"a": [f"see {text} here"]}) == {"a": [shown]}, how


@settings(deadline=None)
@given(st.text(alphabet="0123456789abcdef %\\xu&#;:,\n-0", max_size=300))
def test_texts_that_look_like_it_stay(text: str) -> None:
    assert known("Zq7!Lw2Tn-pX9").redact(text) == text
