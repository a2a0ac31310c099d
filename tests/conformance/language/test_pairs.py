"""The same programs in XML and as S-expressions: the same tree, the same requests, the same result."""

import json
from pathlib import Path
from typing import Any

import msgspec

from tests.batches import batched
from weft.evaluator.effects import ModelCall, ScriptOutcome, ScriptRun
from weft.evaluator.errors import TaskFailed
from weft.evaluator.evaluator import Evaluator
from weft.language.ast import Program
from weft.language.sexp import print_program, read_program
from weft.language.source import Source
from weft.language.xml import read_xml
from weft.testing.in_memory_effects import InMemoryEffects

FOLDER = Path(__file__).parent / "pairs"
NAMES = sorted(path.stem for path in FOLDER.glob("*.xml"))
FAILING = {"08-bad-output", "22-failing-step"}
"""Programs that are to fail; the others are not."""


def from_xml(name: str) -> Program:
    content = (FOLDER / f"{name}.xml").read_bytes()
    return read_xml(Source(name, content.decode()), content)


def from_sexp(name: str) -> Program:
    return read_program(Source(name, (FOLDER / f"{name}.sexp").read_text()))


@batched("name", NAMES)
def test_both_are_the_same_tree(name: str) -> None:
    assert from_xml(name) == from_sexp(name)


@batched("name", NAMES)
async def test_both_ask_for_the_same_and_give_the_same(name: str) -> None:
    given, steps = await run(from_xml(name))

    assert (given, steps) == await run(from_sexp(name))
    assert ("reason" in given) == (name in FAILING), given


@batched("name", NAMES)
async def test_the_printed_program_does_the_same(name: str) -> None:
    program = from_xml(name)
    printed = read_program(Source(name, print_program(program)))

    assert printed == program
    assert await run(printed) == await run(program)


def test_there_are_thirty_and_none_is_without_its_other_half() -> None:
    assert len(NAMES) >= 30
    assert sorted(path.stem for path in FOLDER.glob("*.sexp")) == NAMES


def answer(call: ModelCall) -> Any:
    """Return the same response to the same request."""
    if call.output_format is None:
        return f"<{call.prompt}>"
    return ["a", "b"] if call.output_format.schema == "string[]" else judgement(call)


def judgement(call: ModelCall) -> dict[str, Any]:
    return {"success": "Program" in call.prompt, "feedback": call.prompt, "valid": True, "errors": 2}


def outcome(script: ScriptRun) -> ScriptOutcome:
    asked = json.dumps([script.argv, script.shell, script.stdin, script.environment])
    return ScriptOutcome(asked, "", 3 if script.argv == ("fail",) else 0)


async def run(program: Program) -> tuple[Any, list[Any]]:
    """Return the value of a program, or its error, and every step that it asked for."""
    effects = InMemoryEffects(answer, scripts=outcome)
    try:
        given = msgspec.to_builtins(await Evaluator(effects).evaluate(program))
    except TaskFailed as failure:
        given = _without_places(msgspec.to_builtins(failure.error))
    return given, [(step.key, step.request) for step in effects.steps]


def _without_places(value: Any) -> Any:
    """Remove the text and the locations of the program, which differ."""
    if isinstance(value, list):
        return [_without_places(part) for part in value]
    if isinstance(value, dict):
        hidden = ("failing_expression", "place")
        return {key: _without_places(part) for key, part in value.items() if key not in hidden}
    return value
