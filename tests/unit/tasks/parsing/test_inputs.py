"""`inputs` against `schemas.input_schema`."""

from typing import Any

import msgspec
import pytest

from tests.builders import a_flow, a_task
from weft.limits import MAX_SHOWN_CHARACTERS
from weft.tasks.parsing.inputs import input_problems, validator_for
from weft.tasks.parsing.problems import InvalidTasks, Problem


def problems_of(schema: object, inputs: dict[str, Any]) -> list[Problem]:
    task = a_task(schemas={"method": "m", "input_schema": schema}, inputs=inputs)
    return input_problems(task, path="[0]")


def deep_object(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def deep_schema(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"properties": {"a": schema}}
    return schema


CRAWLER = {
    "type": "object",
    "required": ["url"],
    "properties": {
        "url": {"type": "string", "format": "uri"},
        "timeout": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("inputs", "path", "reason"),
    [
        ({}, "[0].inputs", '"url" is a required property'),
        ({"url": 5}, "[0].inputs.url", '5 is not of type "string"'),
        ({"url": "no uri"}, "[0].inputs.url", 'is not a "uri"'),
        ({"url": "x:y", "timeout": 0}, "[0].inputs.timeout", "less than the minimum of 1"),
        ({"url": "x:y", "tags": ["a", 5]}, "[0].inputs.tags[1]", 'is not of type "string"'),
        ({"url": "x:y", "depth": 1}, "[0].inputs", "depth"),
    ],
)
def test_inputs_that_break_the_schema_are_refused_where_they_do(
    inputs: dict[str, Any], path: str, reason: str
) -> None:
    (problem,) = problems_of(CRAWLER, inputs)

    assert (problem.field, problem.path) == ("inputs", path)
    assert reason in problem.reason


def test_inputs_that_fit_the_schema_are_fine() -> None:
    assert problems_of(CRAWLER, {"url": "https://example.com", "timeout": 60, "tags": []}) == []


def test_all_broken_rules_of_a_schema_are_reported_at_once() -> None:
    found = problems_of(CRAWLER, {"url": 5, "timeout": "x", "tags": [1, 2]})

    assert sorted(problem.path for problem in found) == [
        "[0].inputs.tags[0]",
        "[0].inputs.tags[1]",
        "[0].inputs.timeout",
        "[0].inputs.url",
    ]


@pytest.mark.parametrize("schemas", [None, {"method": "m"}, {"method": "m", "input_schema": {}}])
def test_without_a_schema_any_inputs_are_fine(schemas: dict[str, Any] | None) -> None:
    assert input_problems(a_task(schemas=schemas, inputs={"anything": [1, None]})) == []


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("uuid", "550e8400-e29b-11d4-a716-446655440000", "550e8400e29b11d4a716446655440000"),
        ("uuid", "550E8400-E29B-11D4-A716-446655440000", "{550e8400-e29b-11d4-a716-44665544000}"),
        ("uri", "https://example.com/a?b#c", "//example.com"),
        ("uri", "urn:isbn:0451450523", "a b"),
        ("date-time", "2025-01-15T10:30:00+02:00", "2025-01-15T10:30:00"),
        ("email", "ann@example.com", "ann"),
        ("date", "2024-02-29", "2025-02-29"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("regex", "^a+$", "("),
    ],
)
def test_formats_are_checked(form: str, good: str, bad: str) -> None:
    schema = {"properties": {"value": {"format": form}}}

    assert problems_of(schema, {"value": good}) == []
    assert len(problems_of(schema, {"value": bad})) == 1
    assert problems_of(schema, {"value": 5}) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "objekt"},
        {"properties": []},
        {"properties": {"a": {"pattern": "("}}},
        {"properties": {"a": {"pattern": "(((a{1,1000}){1,1000}){1,1000})"}}},
        {"properties": {"a": {"multipleOf": 0}}},
        {"required": "url"},
        {"$ref": "#/definitions/missing"},
        {"$ref": "http://example.com/schema"},
        {"$ref": "https://json-schema.org/draft/2020-12/nowhere"},
        {"$ref": "file:///etc/passwd"},
        {"$id": "http://example.com/", "$ref": "other.json"},
        deep_schema(500),
    ],
)
def test_a_schema_that_is_none_or_points_elsewhere_is_refused(schema: dict[str, Any]) -> None:
    (problem,) = problems_of(schema, {})

    assert (problem.field, problem.path) == ("schemas", "[0].schemas.input_schema")
    assert problem.reason.startswith("input_schema is not a usable JSON Schema: ")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {
            "definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}},
            "$ref": "#/definitions/a",
        },
        {"properties": {"a": {"$ref": "#"}}},
    ],
)
def test_a_schema_that_refers_to_itself_ends(schema: dict[str, Any]) -> None:
    assert problems_of(schema, deep_object(50)) == []


def test_inputs_nested_deeper_than_can_be_checked_are_a_problem_not_a_crash() -> None:
    (problem,) = problems_of({"properties": {"a": {"type": "string"}}}, deep_object(700))

    assert (problem.field, problem.path) == ("inputs", "[0].inputs")


def test_a_pattern_that_backtracks_for_ever_is_cut_short() -> None:
    schema = {"properties": {"a": {"pattern": "^(a|a)*?(?!x)b$"}}}

    (problem,) = problems_of(schema, {"a": "a" * 4000 + "c"})

    assert "backtracking" in problem.reason


def test_numbers_of_any_size_are_compared_exactly() -> None:
    schema = {"properties": {"n": {"maximum": 10**30}}}

    assert problems_of(schema, {"n": 10**30}) == []
    assert len(problems_of(schema, {"n": 10**30 + 1})) == 1


def test_a_problem_repeats_only_the_start_of_long_inputs() -> None:
    (problem,) = problems_of({"properties": {"a": {"type": "integer"}}}, {"a": "x" * 10**6})

    assert len(problem.reason) <= 3 * MAX_SHOWN_CHARACTERS
    assert len(problem.actual) <= 2 * MAX_SHOWN_CHARACTERS


def test_one_validator_is_built_for_equal_schemas() -> None:
    text = msgspec.json.encode(CRAWLER)

    assert validator_for(text) is validator_for(bytes(text))


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "is not of type"),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "is not of type"),
        ({"propertyNames": {"maxLength": 1}}, "is longer than 1 character"),
    ],
)
def test_what_breaks_alternatives_is_told_in_json(schema: dict[str, object], said: str) -> None:
    problems = InvalidTasks(problems_of(schema, {"word": "x"})).problems()

    assert said in msgspec.json.encode(problems).decode()


def stored_problems(schema: object, inputs: dict[str, Any], *mapped: str) -> list[str]:
    """Return what is wrong with the inputs of a stored task, some of which come from others."""
    params = {"input_mappings": dict.fromkeys(mapped, "other.field")}
    task = a_task(schemas={"method": "m", "input_schema": schema}, inputs=inputs, params=params)
    return [problem.reason for problem in input_problems(task, is_stored=True)]


def test_an_input_that_is_mapped_from_a_result_counts_as_given() -> None:
    assert stored_problems(CRAWLER, {"timeout": 1}, "url") == []


def test_the_other_inputs_of_a_task_with_mappings_are_checked_when_it_is_stored() -> None:
    found = stored_problems(CRAWLER, {"timeout": 0, "tags": 1}, "depth")

    assert len(found) == 4
    assert any("'depth' was unexpected" in reason for reason in found)
    assert any('"url" is a required property' in reason for reason in found)


EITHER = {
    "if": {"required": ["shell"], "properties": {"shell": {"const": True}}},
    "then": {"required": ["command"]},
    "else": {"required": ["argv"]},
}


@pytest.mark.parametrize(
    ("schema", "inputs", "mapped", "count"),
    [
        (EITHER, {}, "stdin", 1),
        (EITHER, {}, "shell", 0),
        ({"allOf": [EITHER]}, {}, "stdin", 1),
        ({"allOf": [EITHER]}, {}, "shell", 0),
        ({**CRAWLER, "allOf": [EITHER]}, {"timeout": 0}, "shell", 3),
        ({"not": {"required": ["json", "body"]}}, {"body": ""}, "json", 1),
        (
            {"anyOf": [{"required": ["a"]}, {"properties": {"b": {"const": 1}}, "required": ["b"]}]},
            {},
            "b",
            0,
        ),
        ({"enum": [{"a": 1}]}, {}, "a", 0),
        ({"$ref": "#/definitions/x", "definitions": {"x": EITHER}}, {}, "shell", 0),
    ],
)
def test_what_depends_on_a_value_that_is_not_there_yet_is_not_judged(
    schema: object, inputs: dict[str, Any], mapped: str, count: int
) -> None:
    # In the fifth: no url, a timeout that is too small, and `shell`, which the crawler does not take.
    assert len(stored_problems(schema, inputs, mapped)) == count


def test_a_flow_may_map_an_input_that_the_schema_requires() -> None:
    fetch = {"name": "fetch", "schemas": {"method": "http"}}
    crawl = {
        "name": "crawl",
        "schemas": {"method": "m", "input_schema": CRAWLER},
        "params": {"input_mappings": {"url": "fetch.url"}},
        "dependencies": ["fetch"],
    }

    assert len(a_flow(fetch, crawl)) == 2
