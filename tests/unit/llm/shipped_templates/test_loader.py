"""The shipped templates can be read, checked and filled as they are."""

import asyncio
import json

import pytest

from weft.evaluator.effects import ModelCall
from weft.evaluator.evaluator import Evaluator
from weft.language.reading import read_text
from weft.llm.local.grammar import grammar_of
from weft.llm.shipped_templates import PROMPTS, prompt
from weft.testing.in_memory_effects import InMemoryEffects

NAMES = ["src/a.py", 'b"]]>c.py', "<d&e>.py"]


@pytest.mark.parametrize("name", PROMPTS)
def test_a_shipped_template_is_a_program_as_it_is(name: str) -> None:
    assert read_text(prompt(name), f"{name}.xml")


@pytest.mark.parametrize("choices", [None, NAMES])
def test_pick_answers_with_one_of_the_names(choices: list[str] | None) -> None:
    call = _call_of(
        prompt("pick", choices=choices),
        "(pick question described)",
        {"reason": "it says so", "choice": "src/a.py"},
        question="Which?",
        described="- src/a.py: letters",
    )

    assert isinstance(call.output_schema, dict)
    expected = {"type": "string", "maxLength": 200} if choices is None else {"enum": choices}
    assert call.output_schema["properties"]["choice"] == expected
    assert list(call.output_schema["properties"]) == ["reason", "choice"], "the reason is written first"
    assert "- src/a.py: letters\nQuestion: Which?" in call.prompt
    assert grammar_of(call.output_schema)


def test_a_name_that_is_not_shipped_is_an_error() -> None:
    with pytest.raises(KeyError, match="evaluate, pick"):
        prompt("summarise")


def _call_of(template: str, expression: str, answer: object, **bindings: str) -> ModelCall:
    """Return the model request that the expression makes."""
    effects = InMemoryEffects([json.dumps(answer)])

    async def run() -> None:
        evaluator = Evaluator(effects)
        await evaluator.evaluate(read_text(template, "template.xml"))
        await evaluator.evaluate(read_text(expression, "call.sexp"), bindings)

    asyncio.run(run())
    (request,) = [step.request for step in effects.steps if isinstance(step.request, ModelCall)]
    return request
