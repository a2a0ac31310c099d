"""Arguments of a command line become values by the declared types of their parameters."""

from typing import Any

import pytest

from weft.tasks.parsing.arguments import ArgumentText, FileText, InvalidArgument, typed_arguments


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, "1234567", "1234567"),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "7", "7"),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"type": "integer"}, "7", 7),
        ({"type": "boolean"}, "true", True),
        ({"type": "array"}, '["a"]', ["a"]),
        ({"type": "integer"}, "seven", "seven"),
        ({}, "7", 7),
        (None, "plain", "plain"),
        (True, "[1", "[1"),
        ({}, "NaN", "NaN"),
    ],
)
def test_a_text_is_read_by_its_type(schema: Any, text: str, value: object) -> None:
    typed = typed_arguments({"x": ArgumentText(text)}, {"properties": {"x": schema}})

    assert typed == {"x": value}
    assert type(typed["x"]) is type(value)


def test_the_text_of_a_file_is_json_only_where_the_type_asks_for_it() -> None:
    schema = {"properties": {"config": {"type": "object"}}}

    typed = typed_arguments({"config": FileText('{"a": 1}'), "text": FileText("7")}, schema)

    assert typed == {"config": {"a": 1}, "text": "7"}


def test_values_that_are_not_typed_by_a_person_stay() -> None:
    assert typed_arguments({"x": "7", "y": [1]}, {}) == {"x": "7", "y": [1]}


def test_a_number_without_an_end_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="1e999 is too large"):
        typed_arguments({"x": ArgumentText("1e999")}, {})
