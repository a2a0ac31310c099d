"""Keys are found in a text however they are encoded."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.config.sections import ProviderSettings
from weft.llm.providers.access import Access, ApiKey
from weft.llm.providers.client import LONGEST_MESSAGE, Redactor
from weft.secrets import registry

KEY = 'sk-"ö/ab+cd=ef 0123456789'

KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF), min_size=8, max_size=40).filter(
    lambda key: key == key.strip()  # blanks around a key are none of it
)


def redactor(key: str) -> Redactor:
    """Return the redactor of a provider with this key, and remove the key from the registry."""
    access = Access(
        name="p",
        kind="openai",
        base_url=None,
        key=ApiKey(key),
        key_variable="P_KEY",
        settings=ProviderSettings(),
    )
    found = Redactor(access)
    registry.forget_all()
    return found


@pytest.mark.parametrize(
    "shown",
    [
        KEY,
        quote(KEY, safe=""),
        quote_plus(KEY),
        json.dumps(KEY),
        json.dumps(KEY, ensure_ascii=False),
        base64.b64encode(KEY.encode()).decode(),
        base64.urlsafe_b64encode(KEY.encode()).decode(),
    ],
    ids=["raw", "quoted", "plus", "json", "json unicode", "base64", "urlsafe base64"],
)
def test_a_key_is_taken_out_in_every_form(shown: str) -> None:
    cleaned = redactor(KEY).clean(f"before {shown} after")

    assert shown not in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    assert "0123456789" not in cleaned
    assert "[secret P_KEY]" in cleaned


@settings(deadline=None)
@given(KEYS, st.binary(max_size=6), st.binary(max_size=6))
def test_a_key_inside_base64_of_more_is_found_wherever_it_stands(
    key: str, before: bytes, after: bytes
) -> None:
    encoded = base64.b64encode(before + key.encode() + after).decode()

    cleaned = redactor(key).clean(encoded)

    # What is left are the characters at the edges, which the neighbours of the key share.
    assert "[secret P_KEY]" in cleaned
    left = cleaned.replace("[secret P_KEY]", "")
    assert len(left) <= len(base64.b64encode(before)) + len(base64.b64encode(after)) + 4


@settings(deadline=None)
@given(KEYS, st.text(max_size=400))
def test_no_message_holds_a_key_or_is_too_long(key: str, around: str) -> None:
    message = redactor(key).message(around + key + around)

    assert key not in message.replace("[secret P_KEY]", "")
    assert len(message) <= LONGEST_MESSAGE


def test_a_key_is_a_secret_of_the_process_as_soon_as_its_provider_is_open() -> None:
    access = Access(
        name="p",
        kind="openai",
        base_url=None,
        key=ApiKey(KEY),
        key_variable=None,
        settings=ProviderSettings(),
    )

    Redactor(access)

    assert KEY not in registry.redact(f"before {KEY} after")
