"""Programs under test: evaluated from S-expression text, with scripted effects."""

from typing import Any

from weft.evaluator.errors import TaskFailed
from weft.evaluator.evaluator import Evaluator
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.testing.in_memory_effects import InMemoryEffects


async def evaluate(text: str, effects: InMemoryEffects, **bindings: Any) -> Any:
    return await Evaluator(effects).evaluate(read_program(Source("<test>", text)), bindings)


async def failure_of(text: str, effects: InMemoryEffects, **bindings: Any) -> TaskFailed:
    """How a program fails; it must."""
    try:
        value = await evaluate(text, effects, **bindings)
    except TaskFailed as error:
        return error
    raise AssertionError(f"the program gave {value!r}")
