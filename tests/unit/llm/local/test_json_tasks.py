"""Forty short tasks: every answer parses and fits its schema, whatever the model."""

import asyncio

import pytest
from bench.embedded.json_fit import answers, problem_of
from bench.embedded.json_tasks import JSON_TASKS

from tests.embedded_model import loaded
from weft.llm.local.models import EmbeddedModel


async def test_every_third_answer_of_the_small_model_fits(smollm2: EmbeddedModel) -> None:
    found = await answers(smollm2, JSON_TASKS[::3])

    assert len(found) == 14
    assert [(answer.task.prompt, answer.text, answer.problem) for answer in found if answer.problem] == []


@pytest.mark.slow
async def test_every_answer_of_the_small_model_fits(smollm2: EmbeddedModel) -> None:
    found = await answers(smollm2)

    assert len(found) == 40
    assert [(answer.task.prompt, answer.text, answer.problem) for answer in found if answer.problem] == []


@pytest.mark.slow
def test_every_answer_of_the_good_model_fits() -> None:
    with loaded("qwen") as model:
        found = asyncio.run(answers(model))

    assert [(answer.task.prompt, answer.text, answer.problem) for answer in found if answer.problem] == []


def test_an_answer_that_does_not_fit_is_noticed() -> None:
    assert problem_of('{"name": "a"', JSON_TASKS[8])
    assert problem_of('{"name": "a"}', JSON_TASKS[8])
    assert problem_of('{"name": "a", "age": 200}', JSON_TASKS[8])
    assert problem_of('{"name": "a", "age": 20}', JSON_TASKS[8]) is None
