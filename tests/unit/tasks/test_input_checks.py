"""Inputs against their schema."""

import msgspec
import pytest

from tests.builders import a_flow
from weft.tasks.input_checks import input_problems
from weft.tasks.problems import InvalidTasks
from weft.tasks.record import evolve


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "is not of type"),
        ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "is not of type"),
        ({"propertyNames": {"maxLength": 1}}, "is longer than 1 character"),
    ],
)
def test_what_breaks_alternatives_is_told_in_json(schema: dict[str, object], said: str) -> None:
    task = evolve(a_flow("a").root, inputs={"word": "x"}, schemas={"method": "noop", "input_schema": schema})

    problems = InvalidTasks(input_problems(task)).problems()

    assert said in msgspec.json.encode(problems).decode()
