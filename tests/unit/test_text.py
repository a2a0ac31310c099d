"""Text at the borders: what is cleaned, and what is refused."""

import pytest

from weft.evaluator.conversion import from_python
from weft.limits import clean_text, decode_text, is_storable, is_unicode


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", ""),
        ("plain", "plain"),
        ("é \U0001f9f5", "é \U0001f9f5"),
        ("a\x00b", "a\ufffdb"),
        ("é\x00", "é\ufffd"),
        ("\ud800 half", "\ufffd half"),
        ("\udcff\x00", "\ufffd\ufffd"),
    ],
)
def test_nul_and_lone_surrogates_are_replaced(text: str, clean: str) -> None:
    assert clean_text(text) == clean
    assert is_storable(text) is (text == clean)
    assert is_storable(clean)


def test_nul_is_valid_unicode_and_a_surrogate_is_not() -> None:
    assert is_unicode("é\x00")
    assert not is_unicode("\udc80")


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    assert decode_text(b"a\xff\xc3\xa9") == "a\ufffdé"


@pytest.mark.parametrize("value", ["\ud800", ["\ud800"], {"a": "\ud800"}, {"\ud800": 1}])
def test_values_from_python_with_lone_surrogates_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="lone surrogate"):
        from_python(value)
