"""Forty short tasks with a JSON Schema each, for embedded models: every answer must parse and fit.

python -m bench.embedded.json_fit [--size TASKS] [--models MODEL ...]
"""

import argparse
import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jsonschema_rs
import msgspec

from bench.embedded.json_tasks import JSON_TASKS, JsonTask
from bench.embedded.models import missing_model
from bench.measure import Benchmark, Figure, LeftOut, Measured
from weft.llm.local.models import EmbeddedModel, EmbeddedModels
from weft.llm.payload import HandlerPayload, PayloadMetadata, UserMessage

MAX_TOKENS = 200


class Answer(NamedTuple):
    """What was answered to a task, and what is wrong with it."""

    task: JsonTask
    text: str
    problem: str | None


async def answers(model: EmbeddedModel, tasks: Sequence[JsonTask] = JSON_TASKS) -> list[Answer]:
    """Return the answers to the tasks, in order."""
    return [await _answer(model, task) for task in tasks]


async def _answer(model: EmbeddedModel, task: JsonTask) -> Answer:
    payload = HandlerPayload(
        system_prompt="Answer in JSON.",
        messages=(UserMessage(task.prompt),),
        output_schema=task.schema,
        metadata=PayloadMetadata(model=model.id, max_tokens=MAX_TOKENS),
    )
    reply = await model.request(payload)
    return Answer(task, reply.text, problem_of(reply.text, task))


def problem_of(text: str, task: JsonTask) -> str | None:
    """Return why the text is not an answer to the task; None when it is one."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return f"no JSON: {error}"
    try:
        jsonschema_rs.validator_for(task.schema, offline=True, validate_formats=True).validate(value)
    except jsonschema_rs.ValidationError as error:
        return error.message
    return None


async def fitting(name: str, tasks: Sequence[JsonTask]) -> tuple[int, float]:
    """Return how many answers of a model fit, and the seconds of all; print the others."""
    models = EmbeddedModels()
    model = await models.find(f"local:{name}")
    began = time.monotonic()
    found = await answers(model, tasks)
    took = time.monotonic() - began
    await models.close()
    for answer in found:
        if answer.problem:
            print(f"  {answer.task.prompt} -> {answer.text[:100]}: {answer.problem}")
    return sum(answer.problem is None for answer in found), took


def measure(options: argparse.Namespace) -> Iterator[Measured]:
    """Yield how many answers of each model fit."""
    tasks = JSON_TASKS[: options.size]
    for name in options.models:
        missing = missing_model(name)
        if missing is not None:
            yield LeftOut(name, missing)
            continue
        count, took = asyncio.run(fitting(name, tasks))
        what = f"{name}: answers that parse and fit"
        yield Figure(what, count, f"of {len(tasks)}", at_least=len(tasks), details=f"{took:.0f} s")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--models", nargs="+", default=["smollm2", "qwen"], metavar="MODEL")


BENCHMARK = Benchmark(
    "Embedded models: JSON that fits its schema",
    "tasks",
    smallest=1,
    full=len(JSON_TASKS),
    measure=measure,
    rounds=1,
    add_options=add_options,
)

if __name__ == "__main__":
    BENCHMARK.run()
