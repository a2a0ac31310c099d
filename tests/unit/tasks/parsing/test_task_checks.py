"""All rules on one task, at once."""

from typing import Any

import pytest

from weft.tasks.parsing.rules import checked_task

ID = "550e8400-e29b-41d4-a716-446655440000"
BARE = {"id": ID, "name": "t", "status": "pending"}


def paths_of(fields: dict[str, Any]) -> list[str]:
    return sorted(problem.path for problem in checked_task({**BARE, **fields})[1])


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({}, []),
        ({"result": {}, "priority": 9}, ["priority", "result"]),
        ({"id": "x", "name": "", "error": "e"}, ["error", "id", "name"]),
        ({"status": "completed", "progress": 7}, ["completed_at", "progress"]),
        ({"status": "failed", "error": ""}, ["completed_at", "error"]),
        ({"status": "over", "result": {}}, ["status"]),
        ({"schedule_enabled": True, "schedule_type": "hourly"}, ["schedule_expression", "schedule_type"]),
        (
            {"schemas": {"method": "m", "input_schema": {"required": ["a"]}}, "result": {}, "colour": 1},
            ["colour", "inputs", "result"],
        ),
        ({"schemas": {"input_schema": {"required": ["a"]}}, "result": {}}, ["result", "schemas.method"]),
        ({"inputs": 5, "schemas": {"method": "m", "input_schema": {"required": ["a"]}}}, ["inputs"]),
        ({"dependencies": 5, "error": "e"}, ["dependencies", "error"]),
    ],
)
def test_a_wrong_field_hides_no_broken_rule_between_the_others(
    fields: dict[str, Any], paths: list[str]
) -> None:
    assert paths_of(fields) == paths


def test_a_task_that_breaks_a_rule_between_fields_is_still_read() -> None:
    task, problems = checked_task({**BARE, "result": {}})

    assert task is not None
    assert [problem.field for problem in problems] == ["result"]
