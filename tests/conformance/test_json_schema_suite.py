"""The required tests of the JSON Schema test suite, draft 7, on what checks `inputs`."""

import json
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from tests.batches import batched
from tests.shared_files import shared
from weft.tasks.parsing.inputs import validator_for

SUITE = shared("data", "json-schema-draft7")
REMOTE = "refRemote"
"""The file whose schemas need documents that only the suite's own server has."""


def groups(file_name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((SUITE / f"{file_name}.json").read_text())
    return found


def cases() -> Iterator[Any]:
    for file in sorted(SUITE.glob("*.json")):
        for group in groups(file.stem) if file.stem != REMOTE else ():
            for test in group["tests"]:
                label = f"{file.stem}: {group['description']}: {test['description']}"
                yield pytest.param(group["schema"], test["data"], test["valid"], id=label)


@batched(("schema", "instance", "is_valid"), list(cases()))
def test_an_instance_is_valid_exactly_when_the_suite_says_so(
    schema: Any, instance: Any, is_valid: bool
) -> None:
    assert validator_for(msgspec.json.encode(schema)).is_valid(instance) is is_valid


def test_eleven_schemas_point_elsewhere() -> None:
    assert len(groups(REMOTE)) == 11


@pytest.mark.parametrize("group", groups(REMOTE), ids=lambda group: group["description"])
def test_a_schema_that_points_elsewhere_is_refused(group: dict[str, Any]) -> None:
    with pytest.raises((ValueError, jsonschema_rs.ReferencingError)):
        validator_for(msgspec.json.encode(group["schema"]))
