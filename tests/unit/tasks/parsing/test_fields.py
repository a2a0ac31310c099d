"""One task's fields: read, or every problem with its place and reason."""

from typing import Any

import msgspec
import pytest

from tests.batches import batched
from tests.builders import NOON
from weft.limits import MAX_JSON_DEPTH, MAX_SHOWN_CHARACTERS
from weft.tasks.parsing.fields import read_task, readable_part
from weft.tasks.parsing.problems import Problem
from weft.tasks.record import Status

ID = "550e8400-e29b-41d4-a716-446655440000"
BARE = {"id": ID, "name": "t", "status": "pending"}
NOT_JSON = "cannot be written as JSON"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def problems_of(fields: dict[Any, Any], path: str = "") -> list[Problem]:
    task, problems = read_task({**BARE, **fields}, path=path)
    assert (task is None) == bool(problems)
    return problems


# fields, field of the problem, its path, a fragment of its reason
WRONG: list[tuple[dict[Any, Any], str, str, str]] = [
    ({"id": "task-1"}, "id", "id", "'task-1' is not a UUID v4"),
    ({"id": 5}, "id", "id", "must be string, not the number 5"),
    ({"id": f"{ID}\n"}, "id", "id", "is not a UUID v4"),
    ({"id": "550e8400-e29b-11d4-a716-446655440000"}, "id", "id", "is not a UUID v4"),
    ({"parent_id": "x"}, "parent_id", "parent_id", "'x' is not a UUID v4"),
    ({"parent_id": []}, "parent_id", "parent_id", "not an array"),
    ({"user_id": ""}, "user_id", "user_id", "must not be empty"),
    ({"user_id": "a\x00"}, "user_id", "user_id", "must not contain a NUL"),
    ({"name": ""}, "name", "name", "must not be empty"),
    ({"name": None}, "name", "name", "must be string, not null"),
    ({"name": "n" * 256}, "name", "name", "at most 255 characters, not 256"),
    ({"name": "a\x00b"}, "name", "name", "must not contain a NUL"),
    ({"name": {"a": 1}}, "name", "name", "not an object"),
    ({"status": "Completed"}, "status", "status", "did you mean 'completed'?"),
    ({"status": "done"}, "status", "status", "is not one of pending, in_progress, completed"),
    ({"status": 1}, "status", "status", "must be string"),
    ({"schemas": {"method": "m", "type": None}}, "schemas", "schemas.type", "must be string, not null"),
    ({"priority": 4}, "priority", "priority", "greater than the maximum of 3"),
    ({"priority": -1}, "priority", "priority", "less than the minimum of 0"),
    ({"priority": True}, "priority", "priority", "must be integer, not a boolean"),
    ({"priority": "high"}, "priority", "priority", "not the string 'high'"),
    ({"priority": 1.0}, "priority", "priority", "Expected `int`, got `float`"),
    ({"inputs": []}, "inputs", "inputs", "must be object, not an array"),
    ({"schemas": {}}, "schemas", "schemas.method", "required field 'method' is missing"),
    ({"schemas": {"method": ""}}, "schemas", "schemas.method", "must not be empty"),
    ({"schemas": {"method": "m", "type": "locl"}}, "schemas", "schemas.type", "did you mean 'local'?"),
    ({"schemas": {"method": "m", "model": 5}}, "schemas", "schemas.model", "must be string"),
    ({"schemas": {"method": "m", "input_schema": 5}}, "schemas", "schemas.input_schema", "must be object"),
    ({"params": "x"}, "params", "params", "must be null or object, not the string 'x'"),
    ({"result": "done"}, "result", "result", "must be null or object"),
    ({"error": ""}, "error", "error", "must not be empty"),
    ({"dependencies": ID}, "dependencies", "dependencies", "must be array"),
    ({"dependencies": [5]}, "dependencies", "dependencies[0]", "must be object, not the number 5"),
    ({"dependencies": [{}]}, "dependencies", "dependencies[0].id", "required field 'id' is missing"),
    ({"dependencies": [{"id": "x"}]}, "dependencies", "dependencies[0].id", "'x' is not a UUID v4"),
    (
        {"dependencies": [{"id": ID}, {"id": ID, "required": 1}]},
        "dependencies",
        "dependencies[1].required",
        "must be boolean",
    ),
    (
        {"dependencies": [{"id": ID, "requird": True}]},
        "dependencies",
        "dependencies[0].requird",
        "unknown field 'requird'; did you mean 'required'?",
    ),
    ({"progress": 1.1}, "progress", "progress", "greater than the maximum of 1"),
    (
        {"created_at": "2025-01-15"},
        "created_at",
        "created_at",
        "is not an ISO 8601 date and time with an offset",
    ),
    ({"created_at": "2025-01-15T10:30:00"}, "created_at", "created_at", "with an offset"),
    ({"created_at": "2016-12-31T23:59:60Z"}, "created_at", "created_at", "Invalid RFC3339"),
    ({"created_at": "0001-01-01T00:00:00+14:00"}, "created_at", "created_at", "outside the years 1 to 9999"),
    (
        {"last_run_at": "9999-12-31T23:59:59-12:00"},
        "last_run_at",
        "last_run_at",
        "outside the years 1 to 9999",
    ),
    ({"origin_type": "linked"}, "origin_type", "origin_type", "did you mean 'link'?"),
    ({"has_references": 0}, "has_references", "has_references", "must be boolean"),
    ({"schedule_type": "hourly"}, "schedule_type", "schedule_type", "is not one of once, interval, cron"),
    ({"schedule_expression": 3600}, "schedule_expression", "schedule_expression", "must be null or string"),
    ({"max_runs": -1}, "max_runs", "max_runs", "less than the minimum of 0"),
    ({"max_runs": 2**70}, "max_runs", "max_runs", "greater than the maximum"),
    ({"run_count": None}, "run_count", "run_count", "must be integer, not null"),
    ({"dependancies": []}, "dependancies", "dependancies", "did you mean 'dependencies'?"),
    ({"Name": "t"}, "Name", "Name", "did you mean 'name'?"),
    ({"zzz": 1}, "zzz", "zzz", "unknown field 'zzz'"),
    # What only a caller in Python can give.
    ({"name": "\ud800"}, "name", "name", NOT_JSON),
    ({"user_id": "a\udfffb"}, "user_id", "user_id", NOT_JSON),
    ({"inputs": {"a": ["\ud800"]}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"\ud800": 1}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": float("nan")}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": float("inf")}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": {1}}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": {1: 2}}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {1: 2}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": object()}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": 10**5000}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": nested(MAX_JSON_DEPTH)}}, "inputs", "inputs", NOT_JSON),
    ({"inputs": {"a": nested(5000)}}, "inputs", "inputs", NOT_JSON),
    ({"params": {"a": b"bytes"}}, "params", "params", NOT_JSON),
    ({"schemas": {"method": "\ud800"}}, "schemas", "schemas", NOT_JSON),
    ({"progress": float("nan")}, "progress", "progress", "must be number"),
    ({"status": "\ud800"}, "status", "status", "is not one of"),
    ({"id": "\ud800"}, "id", "id", "is not a UUID v4"),
    ({"dependencies": [{"id": "\ud800"}]}, "dependencies", "dependencies[0].id", "is not a UUID v4"),
    ({"name": 10**5000}, "name", "name", "must be string"),
    ({"name": object()}, "name", "name", NOT_JSON),
    ({5: 1}, "5", "5", "unknown field '5'"),
    ({"\ud800": 1}, "\\ud800", "\\ud800", "unknown field"),
]


@batched(("fields", "field", "path", "reason"), WRONG)
def test_a_wrong_field_is_one_problem_with_its_place_and_reason(
    fields: dict[Any, Any], field: str, path: str, reason: str
) -> None:
    (problem,) = problems_of(fields)

    assert (problem.field, problem.path) == (field, path)
    assert reason in problem.reason


@batched("fields", [row[0] for row in WRONG])
def test_every_problem_can_be_printed_as_json(fields: dict[Any, Any]) -> None:
    assert msgspec.json.encode(problems_of(fields))


@pytest.mark.parametrize("name", ["id", "name", "status"])
def test_a_missing_required_field_is_named(name: str) -> None:
    task, (problem,) = read_task({key: value for key, value in BARE.items() if key != name})

    assert task is None
    assert (problem.field, problem.path) == (name, name)
    assert "is missing" in problem.reason


def test_all_wrong_fields_are_reported_at_once() -> None:
    fields = {
        "id": "x",
        "name": "",
        "priority": 9,
        "progress": "half",
        "created_at": "yesterday",
        "dependencies": [{"id": "y"}, {"required": True}],
        "schemas": {"type": "local"},
        "colour": "red",
        "inputs": {"a": "\ud800"},
    }

    assert sorted(problem.path for problem in problems_of(fields)) == [
        "colour",
        "created_at",
        "dependencies[0].id",
        "dependencies[1].id",
        "id",
        "inputs",
        "name",
        "priority",
        "progress",
        "schemas.method",
    ]


def test_the_path_of_a_problem_begins_where_the_task_is() -> None:
    (problem,) = problems_of({"dependencies": [{"id": "x"}]}, path="children[2].task")

    assert problem.path == "children[2].task.dependencies[0].id"


@pytest.mark.parametrize(
    "fields", [{"name": "n" * 10**6}, {"n" * 10**6: 1}, {"status": "s" * 10**6}, {"inputs": ["x" * 10**6]}]
)
def test_a_problem_repeats_no_more_than_the_start_of_a_long_value(fields: dict[Any, Any]) -> None:
    (problem,) = problems_of(fields)

    for text in (problem.field, problem.path, problem.reason, str(problem.actual)):
        assert len(text) < 2 * MAX_SHOWN_CHARACTERS


@pytest.mark.parametrize("depth", [200, 300, 900])
def test_a_wrong_field_that_is_nested_deeply_is_a_problem_like_any_other(depth: int) -> None:
    (problem,) = problems_of({"name": nested(depth)})

    assert problem.reason == "must be string, not an array"


def test_deep_values_where_any_are_allowed_are_kept() -> None:
    deep = nested(MAX_JSON_DEPTH - 2)
    schemas = {"method": "m", "input_schema": {"default": deep}, "more": deep}
    task, problems = read_task({**BARE, "inputs": {"a": deep}, "schemas": schemas})

    assert problems == []
    assert task is not None
    assert (task.inputs, task.schemas) == ({"a": deep}, schemas)


@pytest.mark.parametrize(
    "value", ["a\x00b", "\U0001f9f5", 2**70, -(10**400), 0.1, 1e308, None, [[]], {"": {}}, "\u2028"]
)
def test_inputs_are_kept_as_they_are(value: object) -> None:
    task, problems = read_task({**BARE, "inputs": {"value": value}})

    assert problems == []
    assert task is not None
    assert task.inputs == {"value": value}


def test_times_may_be_given_as_python_times() -> None:
    task, _ = read_task({**BARE, "created_at": NOON})

    assert task is not None
    assert task.created_at == NOON


def test_fractions_of_a_second_are_kept_to_the_microsecond() -> None:
    task, _ = read_task({**BARE, "created_at": "2025-01-15T12:00:00.000001Z"})

    assert task is not None
    assert task.created_at == NOON.replace(microsecond=1)


def test_the_readable_part_of_a_task_leaves_out_what_is_wrong() -> None:
    raw = {"id": "x", "status": "failed", "priority": 9, "error": "e", "dependencies": 5}

    part = readable_part(raw, {"id", "name", "priority", "dependencies"})

    assert part is not None
    assert (part.status, part.error, part.priority) == (Status.FAILED, "e", 2)


@pytest.mark.parametrize(
    ("raw", "wrong"), [({"status": "x"}, {"status"}), ({}, set()), ({"status": "\ud800"}, set())]
)
def test_without_a_status_nothing_of_a_task_is_readable(raw: dict[str, Any], wrong: set[str]) -> None:
    assert readable_part(raw, wrong) is None
