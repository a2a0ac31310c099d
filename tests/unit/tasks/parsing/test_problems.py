"""JSON text in and out."""

import math
from typing import Any

import pytest

from tests.builders import NOON, a_task
from weft.limits import MAX_JSON_DEPTH
from weft.tasks.parsing import problems
from weft.tasks.parsing.problems import MalformedJson, decode, is_json, task_object


@pytest.mark.parametrize(
    ("text", "line", "column", "reason"),
    [
        (b"{", 1, 2, "truncated"),
        (b'{"a": 1,}', 1, 9, "malformed"),
        (b'{\n  "a": x\n}', 2, 8, "invalid character"),
        ('{"é": x}'.encode(), 1, 7, "invalid character"),
        (b"\xef\xbb\xbf{\n  x}", 2, 3, "object keys must be strings"),
        (b"\xef\xbb\xbf[x", 1, 2, "invalid character"),
        (b"[1] [2]", 1, 6, "trailing"),
        (b"NaN", 1, 1, "invalid"),
    ],
    ids=range(8),
)
def test_malformed_text_is_refused_with_line_and_column(
    text: bytes, line: int, column: int, reason: str
) -> None:
    with pytest.raises(MalformedJson, match=reason) as caught:
        decode(text, source="flow.json")

    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.message.startswith(f"flow.json:{line}:{column}: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"1" * 5000, "flow.json: Integer value out of range"),
        (b'[1, {"a": 1e999}]', "flow.json: Number out of range"),
        (b'["\\ud800"]', "flow.json: a string has a lone surrogate"),
    ],
)
def test_no_place_is_made_up_where_the_decoder_tells_none(text: bytes, reason: str) -> None:
    with pytest.raises(MalformedJson) as caught:
        decode(text, source="flow.json")

    assert caught.value.message.startswith(reason)


@pytest.mark.parametrize("text", [b"", b" \n\t", b"\xef\xbb\xbf", b"\xef\xbb\xbf \n"])
def test_an_empty_file_is_refused_as_such(text: bytes) -> None:
    with pytest.raises(MalformedJson, match="the file is empty"):
        decode(text)


@pytest.mark.parametrize(
    "text", [b'"\xff"', b'{"a": "\xed\xa0\x80"}', b'"\xc0\x80"', b'"\\ud800"', b'"\\udc00 x"'], ids=repr
)
def test_text_that_is_not_unicode_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedJson):
        decode(text)


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000],
    ids=["open", "closed", "objects"],
)
def test_text_nested_too_deeply_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedJson, match="nested too deeply"):
        decode(text)


def test_more_text_than_the_limit_is_refused_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "MAX_JSON_BYTES", 10)

    assert decode(b"[1,2,3,45]") == [1, 2, 3, 45]
    with pytest.raises(MalformedJson, match="11 bytes of JSON exceed the limit of 10"):
        decode(b"[1,2,3,456]")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"\xef\xbb\xbf[]", []),
        (b" null ", None),
        (b"1180591620717411303424", 2**70),
        (b"1.0", 1.0),
        (b'"\\u0000\\ud83e\\uddf5"', "\x00\U0001f9f5"),
        (b'{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_text_is_decoded_to_the_value_it_stands_for(text: bytes, value: object) -> None:
    assert decode(text) == value


def test_a_task_that_no_store_has_seen_is_printed_without_the_auxiliary_fields() -> None:
    record = task_object(a_task(created_at=NOON))

    assert len(record) == 29
    assert record["created_at"] == "2025-01-15T12:00:00Z"
    assert record["dependencies"] == []


def test_a_stored_task_is_printed_with_the_auxiliary_fields() -> None:
    task = a_task(task_tree_id=a_task().id, has_children=True)

    assert len(task_object(task)) == 31


class Odd:
    """What has no JSON form."""


@pytest.mark.parametrize(
    "value", [None, True, 0, -0.0, 2**70, 1e308, "", "\x00", [1, [2]], {"": {"a": None}}]
)
def test_what_json_gives_back_unchanged_is_json(value: object) -> None:
    assert is_json(value)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, "\ud800", {1: 2}, {1}, (1,), b"a", NOON, Odd(), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_what_json_changes_or_cannot_hold_is_not_json(value: object) -> None:
    assert not is_json(value)
    assert not is_json({"a": [value]})


def nested(depth: int) -> Any:
    value: Any = []
    for level in range(depth - 1):
        value = [1, value] if level % 2 else {"a": value}
    return value


def test_a_value_may_be_nested_as_deeply_as_the_limit() -> None:
    assert is_json(nested(MAX_JSON_DEPTH))
    assert not is_json(nested(MAX_JSON_DEPTH + 1))
    assert not is_json(nested(100_000))
    assert is_json([[]] * 1000)
