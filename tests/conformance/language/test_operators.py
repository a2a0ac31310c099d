"""Every row of the table of programs with task operators."""

from typing import Any

import msgspec

from tests.batches import batched
from tests.conformance.language.operators import ROWS, Row
from tests.programs import evaluate
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskResult
from weft.testing.in_memory_effects import InMemoryEffects


@batched("row", ROWS, ids=lambda row: row.name)
async def test_the_program_does_as_the_table_says(row: Row) -> None:
    effects = InMemoryEffects(row.answers, scripts=row.scripts, tools=row.tools)
    facts = {**await outcome(row, effects), **requests(effects)}

    assert {path: at(facts, path) for path in row.expected} == row.expected


def test_names_of_rows_are_unique() -> None:
    names = [row.name for row in ROWS]

    assert len(names) == len(set(names)) >= 70


async def outcome(row: Row, effects: InMemoryEffects) -> dict[str, Any]:
    """Return the fields of a task result, a value, or an error."""
    try:
        value = await evaluate(row.program, effects, **row.bindings)
    except TaskFailed as failure:
        return {"error": msgspec.to_builtins(failure.error)}
    if isinstance(value, TaskResult):
        return {"parsedContent": None, **msgspec.to_builtins(value)}
    return {"value": value}


def requests(effects: InMemoryEffects) -> dict[str, Any]:
    """Return what was requested of the effects."""
    return {
        "prompts": [call.prompt for call in effects.calls],
        "models": [call.model for call in effects.calls],
        "argv": [list(run.argv) for run in effects.runs],
        "stdin": [run.stdin for run in effects.runs],
        "environment": [run.environment for run in effects.runs],
    }


def at(facts: dict[str, Any], path: str) -> Any:
    """Return the part of the facts at a path, or a text that says that it is missing."""
    found: Any = facts
    for name in path.split("."):
        if not isinstance(found, dict) or name not in found:
            return f"nothing at {path}: {facts}"
        found = found[name]
    return found
