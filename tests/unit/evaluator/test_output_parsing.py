"""Contents as values: what is read, what is refused, and what is said about it."""

from typing import Any

import pytest

from tests.batches import batched
from weft.evaluator.output_parsing import BadOutput, parse_output
from weft.language.schemas import parse_shape


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("1", 1),
        (' {"a": [1, 2.5, null, true]} \n', {"a": [1, 2.5, None, True]}),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("```json\n{}\n```", {}),
        ("```\n[]\n```\n", []),
        ("  ```JSON  \r\n[1]\r\n```", [1]),
        ('"```json\\n1\\n```"', "```json\n1\n```"),
        ('{"a": 1, "a": 2}', {"a": 2}),
    ],
)
def test_json_is_read(content: str, value: Any) -> None:
    assert parse_output(content, None) == value


@batched(
    ("content", "location"),
    [
        ("", "line 1 column 1"),
        ("  \n ", "line 1 column 1"),
        ("no", "line 1 column 1"),
        ("```\n[1,\n nul\n```", "line 3 column 2"),
        ('{"a": 1', "line 1 column 8"),
        ('"a\\ud800"', "line 1 column 3"),
        ("NaN", "line 1 column 1"),
        ("[1, Infinity]", "line 1 column 5"),
        ("Here it is: {}", "line 1 column 1"),
        ("{}\nThat was it.", "line 2 column 1"),
        ("[1,]", "line 1 column 4"),
        ("{'a': 1}", "line 1 column 2"),
        ('["é",\n "ü" x]', "line 2 column 6"),
        ("```json\n1\n```\nand\n```json\n2\n```", "line 3 column 1"),
        ('"a\ud800"', "line 1 column 3"),
        ("1e999", ""),
        ("[" * 100_000, ""),
        ("[" * 300 + "]" * 300, ""),
    ],
)
def test_anything_else_is_refused_with_its_place(content: str, location: str) -> None:
    with pytest.raises(BadOutput) as refused:
        parse_output(content, None)

    assert refused.value.as_json()["type"] == "json_syntax"
    assert refused.value.as_json()["location"] == location


def test_half_of_a_surrogate_pair_is_not_said_to_be_cut_off() -> None:
    with pytest.raises(BadOutput, match="a lone surrogate is not a valid character"):
        parse_output('{"a":"\\ud83d\\ude00 \\ud800"}', None)


def test_a_word_that_begins_like_null_is_not_said_to_be_cut_off() -> None:
    with pytest.raises(BadOutput, match=r"JSON is malformed: expecting value \(at line 1 column 1\)"):
        parse_output("no", None)


def test_a_wrong_shape_is_told_with_every_violation() -> None:
    with pytest.raises(BadOutput) as refused:
        parse_output('[1, "a", 2]', parse_shape("string[]"))

    assert refused.value.as_json() == {
        "type": "schema_mismatch",
        "message": '/0: 1 is not of type "string"; /2: 2 is not of type "string"',
        "location": "/0",
    }
