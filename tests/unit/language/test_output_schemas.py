"""Shapes: by name, as JSON Schema, from a file."""

from typing import Any

import pytest

from weft.language.schemas import MAX_VIOLATIONS, NAMED_SCHEMAS, BadSchema, is_path, parse_shape

FITTING: dict[str, list[Any]] = {
    "object": [{}, {"a": 1}],
    "array": [[], [1, "a"]],
    "[]": [[], [None]],
    "string[]": [[], ["a"]],
    "number[]": [[1, 2.5]],
    "boolean[]": [[True]],
    "object[]": [[{}]],
    "number": [1, 1.5],
    "integer": [1, 2**70],
    "boolean": [True, False],
    "string": ["", "a"],
}
BREAKING: dict[str, list[Any]] = {
    "object": [[], None, "{}"],
    "array": [{}, "[]"],
    "[]": [{}],
    "string[]": [[1], "a"],
    "number[]": [["1"], [True]],
    "boolean[]": [[0]],
    "object[]": [[[]]],
    "number": ["1", True, None],
    "integer": [1.5, "1"],
    "boolean": [0, "true"],
    "string": [1, None],
}


@pytest.mark.parametrize("name", NAMED_SCHEMAS)
def test_a_name_stands_for_a_shape(name: str) -> None:
    shape = parse_shape(name)

    assert [shape.violations(value) for value in FITTING[name]] == [[]] * len(FITTING[name])
    assert all(shape.violations(value) for value in BREAKING[name])


def test_an_inline_schema() -> None:
    shape = parse_shape('{"type": "object", "required": ["a/b"], "properties": {"a/b": {"type": "number"}}}')

    assert shape.violations({"a/b": 1}) == []
    assert [one.location for one in shape.violations({"a/b": "x"})] == ["/a~1b"]


def test_a_schema_from_a_file() -> None:
    files = {"shapes/a.json": ' {"type": "integer"}\n'}

    assert parse_shape("shapes/a.json", files.__getitem__).schema == {"type": "integer"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"description": "km/h"}', False),
        (' {"$ref": "#/$defs/A", "$defs": {"A": true}}', False),
        ('{"pattern": "\\\\d+"}', False),
        ('{"title": "a.json"', False),
        ("true", False),
        ("object", False),
        ("shapes/a.json", True),
        (" a.json ", True),
        ("true/a", True),
    ],
)
def test_an_inline_schema_is_no_path_whatever_its_texts_contain(text: str, expected: bool) -> None:
    assert is_path(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strings[]", "did you mean 'string[]'?"),
        ("", "is no shape"),
        ('{"type": ', "not a usable JSON Schema"),
        ('{"type": "nothing"}', "not a usable JSON Schema"),
        ('{"$ref": "http://example.com/x"}', "not a usable JSON Schema"),
        ('{"$ref": "file:///etc/passwd"}', "not a usable JSON Schema"),
        ('{"a":' * 50_000, "not a usable JSON Schema"),
        ("missing.json", "cannot be read"),
    ],
)
def test_what_is_no_shape_is_refused(text: str, message: str) -> None:
    def read(path: str) -> str:
        raise FileNotFoundError(path)

    with pytest.raises(BadSchema) as refused:
        parse_shape(text, read)

    assert message in str(refused.value)


def test_violations_are_bounded_and_short() -> None:
    found = parse_shape("string[]").violations([1] * 100_000)

    assert len(found) == MAX_VIOLATIONS
    assert len(str(parse_shape("string").violations(["x" * 1_000_000])[0])) < 500
