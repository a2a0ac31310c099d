"""Strings that break software: they pass through unchanged or are refused, and nothing else happens."""

import json
from typing import Any

import msgspec
import pytest

from tests.batches import batched
from tests.builders import NOON, numbered_ids, outcome_of
from tests.shared_files import shared
from weft.tasks.flow import Flow, nested_json
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.parsing.problems import InvalidTasks, decode, task_object

STRINGS: list[str] = json.loads(shared("data", "naughty-strings.json").read_text())
NAMED = "bbbbbbbb-0000-4000-8000-000000000001"
every_string = batched("text", STRINGS, ids=range(len(STRINGS)))


def read(document: object) -> Flow:
    return read_flow(document, new_id=numbered_ids(), now=NOON)


def through_json(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a task that was read, printed nested, and read and printed again."""
    again = read(decode(nested_json(read({"name": "t", **fields}))))
    printed: dict[str, Any] = decode(msgspec.json.encode(task_object(again.root)))
    return printed


def is_kept_or_refused(field: str, text: str) -> bool:
    outcome = outcome_of(lambda: through_json({field: text}), refusal=InvalidTasks)
    if isinstance(outcome, InvalidTasks):
        return [problem.field for problem in outcome.found] == [field] and (not text or len(text) > 255)
    return bool(outcome[field] == text)


@every_string
def test_a_string_passes_through_unchanged_or_is_refused(text: str) -> None:
    inputs = {"value": text, text: [text, {text: text}]}

    assert is_kept_or_refused("name", text)
    assert is_kept_or_refused("user_id", text)
    assert through_json({"inputs": inputs})["inputs"] == inputs


@every_string
def test_a_string_as_the_name_of_a_dependency_finds_the_task_of_that_name(text: str) -> None:
    if not text or len(text) > 255:
        return  # no task can have that name

    flow = read([{"name": "root"}, {"name": text, "id": NAMED}, {"name": "b", "dependencies": [text]}])

    assert [dependency.id for dependency in list(flow)[2].dependencies] == [NAMED]


def test_a_string_that_names_no_task_is_refused() -> None:
    for text in STRINGS:
        with pytest.raises(InvalidTasks) as caught:
            read([{"name": "root"}, {"name": "b", "dependencies": [f"{text} "], "parent_id": f"{text}?"}])
        assert {problem.path for problem in caught.value.found} == {"[1].dependencies[0]", "[1].parent_id"}
        assert msgspec.json.encode(caught.value.problems())


@pytest.mark.parametrize("field", ["id", "status", "created_at", "schedule_type", "priority", "dependencies"])
def test_a_string_where_none_belongs_is_refused(field: str) -> None:
    for text in STRINGS:
        with pytest.raises(InvalidTasks) as caught:
            read({"name": "t", field: text})
        assert [problem.field for problem in caught.value.found] == [field]
