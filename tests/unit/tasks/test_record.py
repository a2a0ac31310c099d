"""The record holds exactly the fields of the specification."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.batches import batched
from tests.builders import a_task
from tests.shared_files import shared
from weft.tasks.json_schema import task_schema
from weft.tasks.parsing.fields import read_task
from weft.tasks.parsing.inputs import input_problems
from weft.tasks.parsing.problems import task_object
from weft.tasks.parsing.rules import consistency_problems
from weft.tasks.record import FIELD_NAMES, Origin, Status, Task, evolve

REQUIRED = object()

# field, what it holds besides null, whether it may be null, default
FIELDS: list[tuple[str, str, bool, Any]] = [
    ("id", "string", False, REQUIRED),
    ("parent_id", "string", True, None),
    ("user_id", "string", True, None),
    ("name", "string", False, REQUIRED),
    ("status", "string", False, REQUIRED),
    ("priority", "integer", False, 2),
    ("inputs", "object", False, {}),
    ("schemas", "object", True, None),
    ("params", "object", True, None),
    ("result", "object", True, None),
    ("error", "string", True, None),
    ("dependencies", "array", False, ()),
    ("progress", "number", False, 0.0),
    ("created_at", "string", True, None),
    ("started_at", "string", True, None),
    ("updated_at", "string", True, None),
    ("completed_at", "string", True, None),
    ("origin_type", "string", True, None),
    ("original_task_id", "string", True, None),
    ("has_references", "boolean", False, False),
    ("schedule_type", "string", True, None),
    ("schedule_expression", "string", True, None),
    ("schedule_enabled", "boolean", False, False),
    ("schedule_start_at", "string", True, None),
    ("schedule_end_at", "string", True, None),
    ("next_run_at", "string", True, None),
    ("last_run_at", "string", True, None),
    ("max_runs", "integer", True, None),
    ("run_count", "integer", False, 0),
]
AUXILIARY: list[tuple[str, str, bool, Any]] = [
    ("task_tree_id", "string", True, None),
    ("has_children", "boolean", False, False),
]

COPIED_EXAMPLE: dict[str, Any] = {
    "id": "550e8400-e29b-41d4-a716-446655440000",
    "parent_id": "660e8400-e29b-41d4-a716-446655440001",
    "user_id": "user-123",
    "name": "Crawl Website",
    "status": "pending",
    "priority": 1,
    "inputs": {"url": "https://example.com", "timeout": 60},
    "schemas": {
        "type": "local",
        "method": "web_crawler",
        "input_schema": {
            "type": "object",
            "required": ["url"],
            "properties": {
                "url": {"type": "string", "format": "uri"},
                "timeout": {"type": "integer", "minimum": 1, "default": 30},
            },
        },
    },
    "params": {"retry_count": 3, "user_agent": "MyCrawler/1.0"},
    "result": None,
    "error": None,
    "dependencies": [{"id": "550e8400-e29b-41d4-a716-446655440002", "required": True}],
    "progress": 0.0,
    "created_at": "2025-01-15T10:30:00Z",
    "started_at": None,
    "updated_at": "2025-01-15T10:30:00Z",
    "completed_at": None,
    "origin_type": "copy",
    "original_task_id": "550e8400-e29b-41d4-a716-446655440003",
    "has_references": False,
    "schedule_type": "weekly",
    "schedule_expression": "mon,wed@09:30",
    "schedule_enabled": True,
    "schedule_start_at": "2025-01-20T00:00:00Z",
    "schedule_end_at": None,
    "next_run_at": "2025-01-22T09:30:00Z",
    "last_run_at": None,
    "max_runs": None,
    "run_count": 0,
}
_ORIGIN_FIELDS = {"origin_type", "original_task_id", "has_references"}
INTERVAL_EXAMPLE: dict[str, Any] = {
    **{name: value for name, value in COPIED_EXAMPLE.items() if name not in _ORIGIN_FIELDS},
    "schedule_type": "interval",
    "schedule_expression": "3600",
    "schedule_start_at": "2025-01-15T10:30:00Z",
    "next_run_at": "2025-01-15T11:30:00Z",
}


def test_the_record_has_the_29_fields_of_the_protocol_and_two_auxiliary_ones() -> None:
    assert len(FIELDS) == 29
    assert list(FIELD_NAMES) == [name for name, *_ in FIELDS + AUXILIARY]


@batched(("name", "kind", "is_nullable", "default"), FIELDS + AUXILIARY)
def test_a_field_has_the_type_and_default_of_the_specification(
    name: str, kind: str, is_nullable: bool, default: Any
) -> None:
    schema = task_schema()["properties"][name]
    bare = Task(id=a_task().id, name="t", status=Status.PENDING)

    assert schema["type"] == ([kind, "null"] if is_nullable else kind)
    assert (name in task_schema()["required"]) == (default is REQUIRED)
    if default is not REQUIRED:
        assert getattr(bare, name) == default


def test_the_fields_are_those_of_the_specifications_table() -> None:
    text = shared("spec", "task-data-model.md").read_text()
    table = text.partition("### Complete Field Specification")[2].partition("### Auxiliary")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+)[^|]*\| (Yes|No) \| ([^|]*) \|", table, re.MULTILINE)
    kinds = {"Number": "number", "Integer": "integer", "Object": "object", "Array": "array"}

    assert [row[0] for row in rows] == [name for name, *_ in FIELDS]
    for (name, kind, is_required, written), (_, expected_kind, _, default) in zip(rows, FIELDS, strict=True):
        assert kinds.get(kind.split()[0], kind.split()[0].lower()) == expected_kind, name
        assert (is_required == "Yes") == (default is REQUIRED), name
        as_written: dict[str, Any] = {"`null`": None, "`{}`": {}, "`[]`": (), "`false`": False, "`0.0`": 0.0}
        if default is not REQUIRED and "Current timestamp" not in written:
            assert as_written.get(written, written.strip("`")) in (default, str(default)), name


def test_the_auxiliary_fields_are_those_of_the_specification() -> None:
    text = shared("spec", "task-data-model.md").read_text()
    table = text.partition("### Auxiliary Fields")[2].partition("> **Note:**")[0]

    assert re.findall(r"^\| `(\w+)`", table, re.MULTILINE) == [name for name, *_ in AUXILIARY]


def test_the_first_complete_example_of_the_specification_prints_back_equal() -> None:
    task, problems = read_task(COPIED_EXAMPLE)

    assert problems == []
    assert task is not None
    assert task_object(task) == COPIED_EXAMPLE
    assert list(task_object(task)) == list(COPIED_EXAMPLE)


def test_the_second_complete_example_prints_back_equal_with_defaults_for_what_it_leaves_out() -> None:
    task, problems = read_task(INTERVAL_EXAMPLE)

    assert problems == []
    assert task is not None
    left_out = {"origin_type": None, "original_task_id": None, "has_references": False}
    assert task_object(task) == {**INTERVAL_EXAMPLE, **left_out}


@pytest.mark.parametrize("example", [COPIED_EXAMPLE, INTERVAL_EXAMPLE])
def test_the_examples_of_the_specification_break_no_rule(example: dict[str, Any]) -> None:
    task, _ = read_task(example)

    assert task is not None
    assert consistency_problems(task) + input_problems(task) == []


def test_the_literal_examples_are_those_of_the_specification() -> None:
    text = shared("spec", "task-data-model.md").read_text()
    blocks = re.findall(r"### Complete Task Example\n+```json\n(.*?)```", text, re.DOTALL)

    assert [json.loads(block) for block in blocks] == [COPIED_EXAMPLE, INTERVAL_EXAMPLE]


def test_a_record_cannot_be_assigned_to() -> None:
    task = a_task()

    with pytest.raises(AttributeError):
        task.name = "other"  # type: ignore[misc]
    assert evolve(task, name="other").name == "other"
    assert task.name == "t"


def test_two_tasks_do_not_share_their_default_inputs() -> None:
    first, second = a_task(), a_task()
    first.inputs["left"] = "behind"

    assert second.inputs == {}


def test_only_an_archived_task_is_frozen() -> None:
    frozen = [origin for origin in [None, *Origin] if a_task(origin_type=origin).is_frozen]

    assert frozen == [Origin.ARCHIVE]


def test_three_statuses_are_terminal() -> None:
    assert {status for status in Status if status.is_terminal} == {
        Status.COMPLETED,
        Status.FAILED,
        Status.CANCELLED,
    }


def test_ids_are_kept_in_lower_case_and_times_in_utc() -> None:
    raw = {
        **COPIED_EXAMPLE,
        "id": "550E8400-E29B-41D4-A716-446655440000",
        "parent_id": "660E8400-E29B-41D4-A716-446655440001",
        "dependencies": [{"id": "550E8400-E29B-41D4-A716-446655440002", "required": False}],
        "created_at": "2025-01-15T12:30:00+02:00",
    }

    task, _ = read_task(raw)

    assert task is not None
    assert task.id == "550e8400-e29b-41d4-a716-446655440000"
    assert task.parent_id == "660e8400-e29b-41d4-a716-446655440001"
    assert [(d.id, d.required) for d in task.dependencies] == [
        ("550e8400-e29b-41d4-a716-446655440002", False)
    ]
    assert task.created_at == datetime(2025, 1, 15, 10, 30, tzinfo=UTC)
    assert task_object(task)["created_at"] == "2025-01-15T10:30:00Z"
