"""The generated JSON Schema: valid, in step with the reader, the specification's but for what is listed."""

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from tests.batches import batched
from tests.shared_files import shared
from tests.unit.tasks.test_record import COPIED_EXAMPLE, INTERVAL_EXAMPLE
from weft.tasks.json_schema import DRAFT_07, flow_schema, task_schema
from weft.tasks.parsing.fields import read_task

ID = "550e8400-e29b-41d4-a716-446655440000"
BARE = {"id": ID, "name": "t", "status": "pending"}

ACCEPTED: list[dict[str, Any]] = [
    {},
    COPIED_EXAMPLE,
    INTERVAL_EXAMPLE,
    {"id": ID.upper()},
    {"parent_id": None},
    {"user_id": "ann"},
    {"name": "n" * 255},
    {"name": "\U0001f9f5" * 255},
    {"name": "line\nbreak\n"},
    *({"status": status} for status in ("pending", "in_progress", "completed", "failed", "cancelled")),
    *({"priority": priority} for priority in range(4)),
    {"inputs": {"a": [None, {"b": 2**70}]}},
    {"schemas": None},
    {"schemas": {"method": "m", "type": "external", "model": "x", "input_schema": {}, "more": [1]}},
    {"params": {}},
    {"result": {}},
    {"error": "e"},
    {"dependencies": []},
    {"dependencies": [{"id": ID}, {"id": ID, "required": False}]},
    {"progress": 0},
    {"progress": 1},
    {"progress": 0.5},
    {"created_at": None},
    {"created_at": "2025-01-15T10:30:00Z"},
    {"created_at": "2025-01-15t10:30:00.123456z"},
    {"created_at": "2025-01-15T10:30:00-08:00"},
    *({"origin_type": origin} for origin in (None, "create", "link", "copy", "archive")),
    {"has_references": True},
    *({"schedule_type": kind} for kind in (None, "once", "interval", "cron", "daily", "weekly", "monthly")),
    {"max_runs": 0},
    {"max_runs": 2**63 - 1},
    {"run_count": 7},
    {"task_tree_id": ID, "has_children": True},
]
REFUSED: list[dict[str, Any]] = [
    {"id": None},
    {"id": 5},
    {"id": ""},
    {"id": "task-123"},
    {"id": "550e8400-e29b-11d4-a716-446655440000"},
    {"id": "550e8400-e29b-41d4-c716-446655440000"},
    {"id": "550e8400e29b41d4a716446655440000"},
    {"id": f"{{{ID}}}"},
    {"id": f"{ID}\n"},
    {"id": f" {ID}"},
    {"parent_id": ""},
    {"original_task_id": "x"},
    {"task_tree_id": "x"},
    {"user_id": ""},
    {"user_id": 5},
    {"user_id": "a\x00"},
    {"name": None},
    {"name": ""},
    {"name": "n" * 256},
    {"name": "a\x00b"},
    {"name": "\n\x00"},
    {"status": None},
    {"status": "Pending"},
    {"status": "running"},
    {"priority": None},
    {"priority": -1},
    {"priority": 4},
    {"priority": 1.5},
    {"priority": "1"},
    {"priority": True},
    {"inputs": None},
    {"inputs": []},
    {"inputs": "{}"},
    {"schemas": {}},
    {"schemas": {"method": ""}},
    {"schemas": {"method": 5}},
    {"schemas": {"method": "m", "type": "elsewhere"}},
    {"schemas": {"method": "m", "type": None}},
    {"schemas": {"method": "m", "input_schema": True}},
    {"schemas": {"method": "m", "model": None}},
    {"schemas": []},
    {"params": []},
    {"result": "done"},
    {"result": [1]},
    {"error": ""},
    {"error": {"code": 1}},
    {"dependencies": None},
    {"dependencies": {}},
    {"dependencies": [ID]},
    {"dependencies": [{}]},
    {"dependencies": [{"id": "x"}]},
    {"dependencies": [{"id": ID, "required": None}]},
    {"dependencies": [{"id": ID, "required": "yes"}]},
    {"dependencies": [{"id": ID, "optional": True}]},
    {"progress": None},
    {"progress": -0.01},
    {"progress": 1.01},
    {"progress": "0.5"},
    {"created_at": ""},
    {"created_at": 1736937000},
    {"created_at": "2025-01-15"},
    {"created_at": "2025-01-15T10:30:00"},
    {"created_at": "2025-02-30T10:30:00Z"},
    {"created_at": "2025-01-15T24:00:00Z"},
    {"started_at": "now"},
    {"updated_at": False},
    {"completed_at": {}},
    {"origin_type": "snapshot"},
    {"has_references": None},
    {"has_references": 1},
    {"schedule_type": "hourly"},
    {"schedule_expression": ""},
    {"schedule_expression": 3600},
    {"schedule_enabled": "true"},
    {"schedule_start_at": "tomorrow"},
    {"max_runs": -1},
    {"max_runs": 2**63},
    {"run_count": None},
    {"run_count": -1},
    {"has_children": None},
    {"unknown": 1},
    {"Name": "t"},
    {"": 1},
]
# JSON Schema counts 1.0 as an integer and knows leap seconds and the year 0; Python does not.
ONLY_THE_SCHEMA_ACCEPTS: list[dict[str, Any]] = [
    {"priority": 1.0},
    {"run_count": 2.0},
    {"created_at": "2016-12-31T23:59:60Z"},
    {"created_at": "0000-01-01T00:00:00Z"},
    {"created_at": "0001-01-01T00:00:00+01:00"},
    {"created_at": "9999-12-31T23:59:59-01:00"},
]
# ISO 8601 spellings that RFC 3339, and so the format of JSON Schema, does not have.
ONLY_THE_READER_ACCEPTS: list[dict[str, Any]] = [
    {"created_at": "2025-01-15 10:30:00Z"},
    {"created_at": "2025-01-15T10:30:00+0200"},
]

# Where the generated schema says more or other than the specification's.
DELIBERATE_DIFFERENCES = {
    # UUID version 4, where the specification's schema says any UUID but its table says v4.
    *(
        (name, key)
        for name in ("id", "parent_id", "original_task_id")
        for key in ("pattern", "minLength", "maxLength")
    ),
    # No NUL: PostgreSQL stores none.
    *((name, "pattern") for name in ("user_id", "name", "error", "schedule_expression")),
    # The table says "non-empty if present" and null by default; the specification's schema forgets both.
    ("error", "type"),
    ("error", "minLength"),
    ("schedule_expression", "minLength"),
    # The reader fills them in; a record on its way has none yet.
    ("created_at", "type"),
    ("updated_at", "type"),
    # 64 bits: what stores keep.
    ("max_runs", "maximum"),
    ("run_count", "maximum"),
}


def is_valid(document: object) -> bool:
    validator = jsonschema_rs.Draft7Validator(task_schema(), validate_formats=True, offline=True)
    return validator.is_valid(document)


def reader_accepts(document: dict[str, Any]) -> bool:
    task, problems = read_task(document)
    assert (task is None) == bool(problems)
    return task is not None


def spec_schema() -> dict[str, Any]:
    text = shared("spec", "task-data-model.md").read_text()
    found = re.search(r"### JSON Schema Definition\n+```json\n(.*?)```", text, re.DOTALL)
    assert found is not None
    schema: dict[str, Any] = json.loads(found[1])
    return schema


@pytest.mark.parametrize("schema", [task_schema(), flow_schema()], ids=["task", "flow"])
def test_the_schema_is_a_valid_draft_07_schema(schema: dict[str, Any]) -> None:
    assert schema["$schema"] == DRAFT_07
    assert jsonschema_rs.meta.is_valid(schema)
    assert json.loads(json.dumps(schema)) == schema


@batched("fields", ACCEPTED, ids=lambda fields: json.dumps(fields)[:60])
def test_the_schema_and_the_reader_accept(fields: dict[str, Any]) -> None:
    document = {**BARE, **fields}

    assert reader_accepts(document)
    assert is_valid(document)


@batched("fields", REFUSED, ids=lambda fields: json.dumps(fields)[:60])
def test_the_schema_and_the_reader_refuse(fields: dict[str, Any]) -> None:
    document = {**BARE, **fields}

    assert not reader_accepts(document)
    assert not is_valid(document)


@pytest.mark.parametrize("name", ["id", "name", "status"])
def test_a_required_field_cannot_be_left_out(name: str) -> None:
    document = {key: value for key, value in BARE.items() if key != name}

    assert not reader_accepts(document)
    assert not is_valid(document)


@pytest.mark.parametrize("fields", ONLY_THE_SCHEMA_ACCEPTS, ids=json.dumps)
def test_the_reader_refuses_what_only_json_schema_can_hold(fields: dict[str, Any]) -> None:
    assert is_valid({**BARE, **fields})
    assert not reader_accepts({**BARE, **fields})


@pytest.mark.parametrize("fields", ONLY_THE_READER_ACCEPTS, ids=json.dumps)
def test_the_reader_takes_times_in_further_spellings_and_prints_them_as_the_schema_has_them(
    fields: dict[str, Any],
) -> None:
    assert not is_valid({**BARE, **fields})
    assert reader_accepts({**BARE, **fields})


def test_the_schema_differs_from_the_specifications_only_where_it_is_meant_to() -> None:
    ours, theirs = task_schema()["properties"], spec_schema()["properties"]
    auxiliary = {"task_tree_id", "has_children"}

    assert set(ours) - auxiliary == set(theirs)
    differing = {
        (name, key)
        for name in theirs
        for key in {*ours[name], *theirs[name]} - {"description", "properties"}
        if ours[name].get(key) != theirs[name].get(key)
    }
    assert differing == DELIBERATE_DIFFERENCES
    assert task_schema()["required"] == spec_schema()["required"]


def test_the_schema_of_schemas_and_of_a_dependency_is_the_specifications() -> None:
    def without_descriptions(properties: dict[str, Any]) -> dict[str, Any]:
        return {
            name: {key: value for key, value in schema.items() if key != "description"}
            for name, schema in properties.items()
        }

    ours, theirs = task_schema(), spec_schema()
    assert without_descriptions(ours["properties"]["schemas"]["properties"]) == without_descriptions(
        theirs["properties"]["schemas"]["properties"]
    )
    dependency = ours["definitions"]["dependency"]
    assert dependency["required"] == theirs["definitions"]["dependency"]["required"]
    assert dependency["additionalProperties"] is False
    required = without_descriptions(dependency["properties"])["required"]
    assert required == {"type": "boolean", "default": True}


def test_every_property_is_described() -> None:
    assert [
        name for name, schema in task_schema()["properties"].items() if not schema.get("description")
    ] == []


@pytest.mark.parametrize(
    ("document", "is_flow"),
    [
        ([BARE], True),
        ({"task": BARE}, True),
        ({"task": BARE, "children": [{"task": {**BARE, "parent_id": ID}, "children": []}]}, True),
        ({"name": "a"}, True),
        (
            [
                {"name": "a"},
                {"name": "b", "dependencies": ["a", {"name": "a"}, {"id": ID, "required": False}]},
            ],
            True,
        ),
        ([{"name": "a", "dependencies": [{"required": True}]}], False),
        ([], False),
        ([{"name": ""}], False),
        ({"task": BARE, "children": [BARE]}, False),
        ({"children": []}, False),
        (5, False),
    ],
)
def test_the_flow_schema_takes_a_list_or_a_tree_of_records(document: object, is_flow: bool) -> None:
    validator = jsonschema_rs.Draft7Validator(flow_schema(), validate_formats=True, offline=True)

    assert validator.is_valid(document) is is_flow
