"""Asks the forty tasks and checks the answers: `python -m bench.embedded.json_fit [MODEL...]`."""

import asyncio
import sys
import time
from typing import NamedTuple

import jsonschema_rs
import msgspec

from bench.embedded.json_tasks import JSON_TASKS, JsonTask
from bench.measure import machine
from weft.llm.local.models import EmbeddedModel, EmbeddedModels
from weft.llm.payload import HandlerPayload, PayloadMetadata, UserMessage

MAX_TOKENS = 200


class Answer(NamedTuple):
    """What was answered to a task, and what is wrong with it."""

    task: JsonTask
    text: str
    problem: str | None


async def answers(model: EmbeddedModel) -> list[Answer]:
    """The answers to all tasks, in order."""
    return [await _answer(model, task) for task in JSON_TASKS]


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
    """Why the text is no answer to the task; None when it is one."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return f"no JSON: {error}"
    try:
        jsonschema_rs.validator_for(task.schema, offline=True, validate_formats=True).validate(value)
    except jsonschema_rs.ValidationError as error:
        return error.message
    return None


async def main() -> None:
    print(machine())
    models = EmbeddedModels()
    for name in sys.argv[1:] or ["smollm2", "qwen"]:
        model = await models.find(f"local:{name}")
        began = time.monotonic()
        found = await answers(model)
        for answer in found:
            if answer.problem:
                print(f"  {answer.task.prompt} -> {answer.text[:100]}: {answer.problem}")
        fitting = sum(answer.problem is None for answer in found)
        print(f"{model.id}: {fitting} of {len(found)} fit, {time.monotonic() - began:.0f} s")
    await models.close()


if __name__ == "__main__":
    asyncio.run(main())
