"""Everything that a grammar lets a model write fits the schema it was made of."""

import json
from itertools import permutations
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.grammar_sampler import Sampler
from weft.llm.errors import ModelError
from weft.llm.local.grammar import grammar_of

NAMED: dict[str, dict[str, Any]] = {
    "object": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "boolean"}},
        "required": ["b"],
    },
    "all optional": {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}}},
    "closed": {
        "type": "object",
        "properties": {"a": {"enum": ["x", 'quo"te', "back\\slash", "ü"]}},
        "required": ["a"],
        "additionalProperties": False,
    },
    "awkward names": {"properties": {'a"\\\n\x00 ü]': {"type": "null"}}, "required": ['a"\\\n\x00 ü]']},
    "required without properties": {"type": "object", "required": ["x"]},
    "named and others": {
        "type": "object",
        "properties": {"b": {"type": "null"}, "bX": {"type": "null"}, "ü": {"type": "null"}},
        "additionalProperties": {"type": ["integer", "null"]},
    },
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 4},
    "empty map": {"type": "object", "additionalProperties": False},
    "array": {"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 3},
    "exact array": {"type": "array", "items": {"const": 1}, "minItems": 3, "maxItems": 3},
    "unique": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": True, "minItems": 1},
    "tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
    "draft 7 tuple": {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}]},
    "bounded string": {"type": "string", "minLength": 2, "maxLength": 5},
    "date": {"type": "string", "format": "date"},
    "date-time": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "format": "uuid"},
    "several types": {"type": ["integer", "null", "string"]},
    "anyOf beside properties": {
        "type": "object",
        "properties": {"kind": {"type": "string"}},
        "required": ["kind"],
        "anyOf": [
            {"properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["x"]},
            {"properties": {"kind": {"const": "b"}}},
        ],
    },
    "allOf": {
        "allOf": [
            {"$ref": "#/$defs/base"},
            {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"]},
        ],
        "$defs": {"base": {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}},
    },
    "references": {
        "$defs": {"name": {"type": "string", "maxLength": 3}, "two": {"$ref": "#/$defs/name"}},
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/two"}, "b": {"$ref": "#/$defs/name"}},
        "required": ["a", "b"],
    },
    "tree": {
        "type": "object",
        "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#"}, "maxItems": 2},
        },
        "required": ["value", "children"],
    },
    "any": {},
}

bounds = st.one_of(st.none(), st.integers(-1200, 1200), st.floats(-3, 3).map(lambda x: round(x, 2)))


def check(schema: dict[str, Any], seed: int = 0, times: int = 40) -> None:
    sampler = Sampler(grammar_of(schema), seed)
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    for _ in range(times):
        text = sampler.text()
        value = json.loads(text)
        assert validator.is_valid(value), f"{text} does not fit {schema}"


def problem_of(schema: dict[str, Any]) -> str | None:
    """Return the error that the schema causes."""
    try:
        grammar_of(schema)
    except ModelError as error:
        return error.message
    return None


@pytest.mark.parametrize("name", NAMED)
def test_what_the_grammar_allows_fits_the_schema(name: str) -> None:
    check(NAMED[name])


@pytest.mark.parametrize(("low", "high"), [(0, None), (1, None), (1, 1), (2, 3), (3, 9), (0, 2)])
def test_every_choice_of_different_values_can_be_written_in_any_order(low: int, high: int | None) -> None:
    colours = ["red", "green", "blue"]
    schema = {"type": "array", "items": {"enum": colours}, "uniqueItems": True, "minItems": low}
    if high is not None:
        schema["maxItems"] = high
    sampler = Sampler(grammar_of(schema), 0)

    written = {tuple(json.loads(sampler.text())) for _ in range(600)}

    counts = range(low, min(high or 3, 3) + 1)
    assert written == {some for count in counts for some in permutations(colours, count)}


def test_of_many_different_values_every_one_can_come_first_and_no_more_than_there_are() -> None:
    schema = {"items": {"enum": list(range(30))}, "uniqueItems": True, "minItems": 2, "maxItems": 40}
    sampler = Sampler(grammar_of(schema), 0)

    written = [json.loads(sampler.text()) for _ in range(600)]

    assert {some[0] for some in written} == set(range(30))
    assert {2, 30} <= {len(some) for some in written} <= set(range(2, 31))


@given(
    kind=st.sampled_from(["integer", "number"]), low=bounds, high=bounds, low_open=bounds, high_open=bounds
)
@settings(max_examples=examples(150), deadline=None)
def test_numbers_stay_within_their_bounds(
    kind: str, low: float | None, high: float | None, low_open: float | None, high_open: float | None
) -> None:
    schema = {
        "type": kind,
        "minimum": low,
        "maximum": high,
        "exclusiveMinimum": low_open,
        "exclusiveMaximum": high_open,
    }
    schema = {name: value for name, value in schema.items() if value is not None}
    if problem := problem_of(schema):
        assert "bounds allow no number" in problem
        floor = max((value for value in (low, low_open) if value is not None), default=-9e9)
        ceiling = min((value for value in (high, high_open) if value is not None), default=9e9)
        assert ceiling - floor < (1.01 if kind == "integer" else 0.01)
        return
    check(schema, times=15)


scalars = st.one_of(
    st.builds(lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
              st.integers(0, 5), st.integers(0, 9)),
    st.builds(lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more},
              st.integers(-500, 500), st.integers(0, 5000)),
    st.just({"type": "boolean"}),
    st.lists(st.one_of(st.text(max_size=8), st.integers(), st.none()), min_size=1, max_size=5).map(
        lambda values: {"enum": values}
    ),
)  # fmt: skip


def nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    members = st.dictionaries(st.text(max_size=6), inner, max_size=5)
    return st.one_of(
        st.builds(
            lambda properties, data: {
                "type": "object",
                "properties": properties,
                "required": [name for name in properties if data.random() < 0.5],
            },
            members,
            st.randoms(use_true_random=False),
        ),
        st.builds(
            lambda items, low, more: {
                "type": "array",
                "items": items,
                "minItems": low,
                "maxItems": low + more,
            },
            inner,
            st.integers(0, 3),
            st.integers(0, 4),
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    )


@given(schema=st.recursive(scalars, nested, max_leaves=12), seed=st.integers(0, 2**32))
@settings(max_examples=examples(80), deadline=None)
def test_nested_schemas_are_kept_to(schema: dict[str, Any], seed: int) -> None:
    check(schema, seed, times=5)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"$ref": "#"}, "refers to itself"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "refers to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "itself"),
        ({"allOf": [{"$ref": "#"}]}, "deep"),
        ({"$ref": "https://example.com/schema"}, "outside"),
        ({"$ref": "#/$defs/none"}, "does not exist"),
        ({"properties": {"a": False}, "required": ["a"]}, "false"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "exceeds"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "no number"),
        ({"type": "text"}, "unknown `type`"),
        ({"enum": ["a"], "type": "integer"}, "no value"),
        ({"items": {"enum": [1, 1.0, 2]}, "uniqueItems": True, "minItems": 3}, "unique items"),
        ({"enum": list(range(10_000))}, "600 alternatives"),
        ({"const": "x" * 1_000_000}, "too large"),
        ({"properties": {str(number): {"const": number} for number in range(5_000)}}, "too large"),
    ],
)
def test_a_schema_that_cannot_be_met_says_why(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(ModelError, match=why) as caught:
        grammar_of(schema)
    assert caught.value.reason == "configuration_error"


def test_nesting_ends_in_an_error_and_not_in_the_stack() -> None:
    deep: dict[str, Any] = {"type": "null"}
    for _ in range(100_000):
        deep = {"items": deep}

    with pytest.raises(ModelError, match="deep"):
        grammar_of(deep)


def test_a_part_that_is_in_many_places_is_not_followed_for_ever() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(18):
        schema = {"anyOf": [schema, {"type": "array", "items": schema}]}

    with pytest.raises(ModelError, match="too large"):
        grammar_of(schema)


def test_alternatives_of_alternatives_do_not_multiply() -> None:
    definitions: dict[str, Any] = {"s0": {"type": "string"}}
    for number in range(1, 40):
        before = {"$ref": f"#/$defs/s{number - 1}"}
        definitions[f"s{number}"] = {
            "anyOf": [before, {"type": "array", "items": before, "maxItems": number}]
        }

    grammar = grammar_of({"$ref": "#/$defs/s19", "$defs": definitions})

    assert len(grammar) < 10_000
