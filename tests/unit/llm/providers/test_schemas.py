"""JSON Schemas for providers."""

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.llm.prompt import json_instructions
from weft.llm.providers.kinds import held_output

VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


def test_an_object_is_told_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}

    held = held_output(schema, "openai")

    assert held is not None
    assert (held.schema, held.is_wrapped) == (schema, False)
    assert held.unwrap('{"value": 1}') == '{"value": 1}'


@settings(deadline=None)
@given(VALUES)
def test_what_is_put_into_an_object_comes_out_as_it_was(value: Any) -> None:
    held = held_output({"type": ["array", "null", "boolean", "integer", "string"]}, "openai")
    assert held is not None

    wrapped = json.dumps({"value": value})

    assert jsonschema_rs.is_valid(held.schema, {"value": value})
    assert json.loads(held.unwrap(wrapped)) == value


@pytest.mark.parametrize("text", ["no JSON", "[1]", '{"value": 1, "more": 2}', "{}"])
def test_an_answer_that_is_not_what_was_asked_for_stays_as_it_came(text: str) -> None:
    held = held_output({"type": "integer"}, "openai")

    assert held is not None
    assert held.unwrap(text) == text


def test_definitions_stay_where_references_look_for_them() -> None:
    schema = {"$defs": {"name": {"type": "string"}}, "type": "array", "items": {"$ref": "#/$defs/name"}}

    held = held_output(schema, "openai")

    assert held is not None
    assert jsonschema_rs.is_valid(held.schema, {"value": ["a"]})
    assert not jsonschema_rs.is_valid(held.schema, {"value": [1]})
    assert not jsonschema_rs.is_valid(held.schema, ["a"])


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({}, "openai"),
        ({"type": "array", "items": {"$ref": "#"}}, "openai"),
        ({"type": "object"}, "anthropic"),
        ({"type": "object", "properties": {"a": {"type": "object"}}}, "anthropic"),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "string"}},
            "anthropic",
        ),
    ],
    ids=["any shape", "names itself", "open object", "open inside", "open properties"],
)
def test_what_a_provider_would_hold_otherwise_is_not_told(schema: dict[str, Any], kind: Any) -> None:
    assert held_output(schema, kind) is None


def test_a_closed_object_is_told_to_every_kind() -> None:
    schema = {
        "type": "object",
        "properties": {"default": {"enum": [{"type": "object"}]}},
        "additionalProperties": False,
    }

    assert held_output(schema, "anthropic") is not None


def test_the_words_for_a_schema_have_it_in_them() -> None:
    assert '{"type": "integer"}' in json_instructions({"type": "integer"})
