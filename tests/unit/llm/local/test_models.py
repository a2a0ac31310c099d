"""The real small model: answers, order, cancelling, and what it is held to."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.embedded_model import SMOLLM2, ask
from weft.evaluator.tools import ToolDefinition, ToolUse
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.local.models import EmbeddedModel, EmbeddedModels, settings_from
from weft.llm.local.runtime import RuntimeSettings
from weft.llm.payload import AssistantMessage, HandlerPayload, PayloadMetadata, ToolMessage, UserMessage

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}

WEATHER = ToolDefinition(
    name="weather",
    description="The weather of a city.",
    input_schema={
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 20}},
        "required": ["city"],
    },
)


def worker_of(model: EmbeddedModel) -> int:
    """Return the process that has the model in memory."""
    process = model._runtime._process
    assert process is not None
    return process._worker.pid


async def test_it_answers_in_text_and_streams_it(smollm2: EmbeddedModel) -> None:
    pieces: list[str] = []

    reply = await smollm2.request(ask("Say hello."), pieces.append)

    assert reply.text
    assert "".join(pieces) == reply.text
    assert len(pieces) > 1
    assert reply.model == SMOLLM2


async def test_the_same_question_has_the_same_answer(smollm2: EmbeddedModel) -> None:
    first = await smollm2.request(ask("Name a colour."))
    await smollm2.request(ask("Something else in between."))

    assert (await smollm2.request(ask("Name a colour."))).text == first.text


async def test_tokens_are_counted_as_the_model_counts_them(smollm2: EmbeddedModel) -> None:
    payload = ask("How many tokens, <|im_end|> ü 漢字 😀?", context="Some data.", max_tokens=4)

    reply = await smollm2.request(payload)

    assert reply.usage.input_tokens == await smollm2.count_tokens(payload)
    assert reply.usage.output_tokens == 4
    assert reply.finish_reason == "length"
    assert smollm2.price(reply.usage) == 0.0


async def test_text_that_stays_the_same_is_read_once(smollm2: EmbeddedModel) -> None:
    system = "You count apples. " * 20
    first = await smollm2.request(ask("One apple.", system=system, max_tokens=1))

    second = await smollm2.request(ask("Two apples.", system=system, max_tokens=1))

    assert second.usage.cache_read_tokens > first.usage.input_tokens // 2
    assert (second.first_token_seconds or 0.0) > 0.0


async def test_output_is_held_to_the_schema(smollm2: EmbeddedModel) -> None:
    reply = await smollm2.request(ask("Describe a person.", output_schema=PERSON, max_tokens=80))

    assert jsonschema_rs.is_valid(PERSON, json.loads(reply.text))
    assert reply.finish_reason == "stop"


async def test_a_schema_nobody_can_meet_is_an_error_and_the_model_goes_on(smollm2: EmbeddedModel) -> None:
    with pytest.raises(ModelError, match="refers to itself"):
        await smollm2.request(ask("?", output_schema={"$ref": "#"}))

    assert (await smollm2.request(ask("Say hello."))).text


async def test_a_tool_is_used_with_arguments_that_fit(smollm2: EmbeddedModel) -> None:
    reply = await smollm2.request(
        ask("What is the weather in Paris?", tools=(WEATHER,), max_tokens=60), must_use_tool=True
    )

    assert reply.finish_reason == "tools"
    (use,) = reply.tool_uses
    assert use.name == "weather"
    assert isinstance(use.arguments, dict)
    assert jsonschema_rs.is_valid(WEATHER.input_schema, use.arguments)


async def test_with_tools_it_can_answer_and_the_answer_is_streamed_as_text(smollm2: EmbeddedModel) -> None:
    use = ToolUse(id="call_1", name="weather", arguments={"city": "Paris"})
    payload = HandlerPayload(
        system_prompt="",
        messages=(
            UserMessage("What is the weather in Paris?"),
            AssistantMessage("", (use,)),
            ToolMessage(content="Sunny.", tool_use_id="call_1", tool_name="weather"),
        ),
        tools=(WEATHER,),
        output_schema={"enum": ["sunny", "rainy"]},
        metadata=PayloadMetadata(model=SMOLLM2, max_tokens=40),
    )
    pieces: list[str] = []

    reply = await smollm2.request(payload, pieces.append)

    # Which of the two it takes is the model's affair; that it is one of them is not.
    assert reply.tool_uses or json.loads(reply.text) in ("sunny", "rainy")
    assert "".join(pieces) == reply.text


async def test_a_prompt_that_does_not_fit_says_so(smollm2: EmbeddedModel) -> None:
    with pytest.raises(ContextTooLong, match="8192"):
        await smollm2.request(ask("word " * 9_000))


async def test_calls_are_answered_in_the_order_they_came(smollm2: EmbeddedModel) -> None:
    ended: list[int] = []

    async def one(number: int) -> None:
        await smollm2.request(ask(f"Number {number}.", max_tokens=2))
        ended.append(number)

    tasks = []
    for number in range(6):
        tasks.append(asyncio.create_task(one(number)))
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)

    assert ended == sorted(ended)


async def test_the_event_loop_turns_while_the_model_works(smollm2: EmbeddedModel) -> None:
    turns = 0
    task = asyncio.create_task(smollm2.request(ask("Tell a story.", max_tokens=30)))
    while not task.done():
        await asyncio.sleep(0.001)
        turns += 1

    assert turns > 30
    assert (await task).usage.output_tokens > 1


async def test_a_waiting_call_that_is_cancelled_is_never_made(smollm2: EmbeddedModel) -> None:
    begun = asyncio.Event()
    running = asyncio.create_task(smollm2.request(ask("Count.", max_tokens=30), lambda text: begun.set()))
    await begun.wait()
    heard: list[str] = []
    waiting = asyncio.create_task(smollm2.request(ask("Never."), heard.append))
    after = asyncio.create_task(smollm2.request(ask("Say hello.")))
    await asyncio.sleep(0)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await running).text
    assert (await after).text
    assert heard == []


async def test_a_running_call_that_is_cancelled_stops_and_leaves_the_model_usable(
    smollm2: EmbeddedModel,
) -> None:
    begun = asyncio.Event()
    heard: list[str] = []

    def hear(text: str) -> None:
        heard.append(text)
        begun.set()

    endless = {"type": "string", "minLength": 1_900}  # it cannot end before
    running = asyncio.create_task(
        smollm2.request(ask("Go on.", max_tokens=4_000, output_schema=endless), hear)
    )
    await begun.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await smollm2.request(ask("Say hello."))).text
    assert len("".join(heard)) < 1_900


async def test_a_call_is_cancelled_while_its_prompt_is_read(smollm2: EmbeddedModel) -> None:
    reading = asyncio.create_task(smollm2.request(ask("many words " * 3_500, max_tokens=1)))
    await asyncio.sleep(0)
    after = asyncio.create_task(smollm2.request(ask("Say hello.", max_tokens=1)))
    await asyncio.sleep(0)
    reading.cancel()

    await after

    assert reading.cancelled()


async def test_who_asks_at_the_same_time_in_other_loops_and_threads_gets_the_same_model(
    smollm2: EmbeddedModel,
) -> None:
    found: list[Any] = []

    async def use() -> None:
        models = EmbeddedModels()
        model, again = await asyncio.gather(models.find(SMOLLM2), models.find("local:smollm2"))
        found.append((model._runtime, again._runtime))
        assert (await model.request(ask("Say hello.", max_tokens=1))).usage.output_tokens == 1
        await models.close()

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert [pair == (smollm2._runtime, smollm2._runtime) for pair in found] == [True] * 4
    assert (await smollm2.request(ask("Say hello."))).text, "others let go of it; it is still in use here"


async def test_a_runtime_that_is_closed_refuses_what_comes_after_and_is_made_anew() -> None:
    models = EmbeddedModels(settings=RuntimeSettings(context_window=512))
    model = await models.find(SMOLLM2)
    endless = {"type": "string", "minLength": 1_900}
    begun = asyncio.Event()
    running = asyncio.create_task(
        model.request(ask("Go on.", max_tokens=400, output_schema=endless), lambda text: begun.set())
    )
    await begun.wait()
    waiting = asyncio.create_task(model.request(ask("Never.")))
    await asyncio.sleep(0)

    model._runtime.close()

    with pytest.raises(ModelError, match="closed"):
        await waiting
    with pytest.raises(ModelError, match="closed"):
        await running
    with pytest.raises(ModelError, match="closed"):
        await model.request(ask("Say hello."))
    again = await models.find(SMOLLM2)
    assert (await again.request(ask("Say hello."))).text
    again._runtime.close()


async def test_a_crash_fails_the_call_and_the_next_one_has_a_new_process() -> None:
    model = await EmbeddedModels(settings=RuntimeSettings(context_window=514)).find(SMOLLM2)

    def crash(_: str) -> None:
        os.kill(worker_of(model), signal.SIGKILL)

    with pytest.raises(ModelError, match="crashed") as caught:
        await model.request(ask("Tell a story.", max_tokens=200), crash)
    assert caught.value.reason == "llm_error"
    assert (await model.request(ask("Say hello."))).text

    for _ in range(2):
        await model._runtime.start()
        os.kill(worker_of(model), signal.SIGKILL)
        with pytest.raises(ModelError, match="has crashed"):
            await model.count_tokens(ask("Say hello."))
    with pytest.raises(ModelError, match="not started again"):
        await model.request(ask("Say hello."))
    model._runtime.close()


async def test_a_model_stays_in_memory_when_its_user_lets_go_of_it(smollm2: EmbeddedModel) -> None:
    before = worker_of(smollm2)
    for _ in range(2):
        models = EmbeddedModels()
        assert worker_of(await models.find(SMOLLM2)) == before
        await models.close()


async def test_the_event_loop_turns_while_a_model_is_loaded() -> None:
    finding = asyncio.create_task(EmbeddedModels(settings=RuntimeSettings(context_window=515)).find(SMOLLM2))
    turns = 0
    while not finding.done():
        await asyncio.sleep(0.001)
        turns += 1

    (await finding)._runtime.close()
    assert turns > 30


def test_the_model_ends_with_the_program_that_was_killed() -> None:
    program = """
import asyncio, time
from weft.llm.local.models import EmbeddedModels
model = asyncio.run(EmbeddedModels().find("smollm2"))
print(model._runtime._process._worker.pid, model._runtime._process._folder.path, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        # The kernel tells when a process ends that is no child of ours.
        ended = os.pidfd_open(int(pid))
        parent.kill()

    assert select.select([ended], [], [], 60)[0]
    os.close(ended)
    assert not Path(folder).exists()


async def test_loading_keeps_the_signal_handlers_of_the_program(smollm2: EmbeddedModel) -> None:
    received = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, received.set)
    try:
        models = EmbeddedModels(settings=RuntimeSettings(context_window=513))
        model = await models.find(SMOLLM2)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(received.wait(), 10)
        assert (await model.request(ask("Say hello.", max_tokens=1))).usage.output_tokens == 1
        model._runtime.close()
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


async def test_a_model_that_is_not_here_is_an_error_that_says_how_to_get_it(tmp_path: Path) -> None:
    models = EmbeddedModels(folder=tmp_path)

    for name in (None, "local:auto", "local:qwen", "qwen2.5-coder-1.5b"):
        with pytest.raises(ModelError, match=r"weft models pull qwen downloads it \(1.1 GB\)") as caught:
            await models.find(name)
        assert caught.value.reason == "configuration_error"
    with pytest.raises(ModelError, match="there is no embedded model 'gpt'"):
        await models.find("local:gpt")
    with pytest.raises(ModelError, match="does not exist"):
        await models.find(f"local:{tmp_path}/none.gguf")


async def test_a_file_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "bad.gguf"
    file.write_bytes(b"GGUF" + b"\xff" * 1_000)

    with pytest.raises(ModelError, match="cannot be loaded"):
        await EmbeddedModels().find(f"local:{file}")


async def test_a_model_that_is_not_here_is_fetched_when_the_caller_can(tmp_path: Path) -> None:
    wanted: list[str] = []
    models = EmbeddedModels(folder=tmp_path, fetch=lambda entry, stop: wanted.append(entry.name))

    with pytest.raises(ModelError, match="not installed"):  # this fetch brings nothing
        await models.find("local:smollm2")

    assert wanted == ["smollm2-135m"]


def test_settings_come_from_the_environment() -> None:
    assert settings_from({}) == RuntimeSettings(context_window=8_192)
    given = {"WEFT_LOCAL_CONTEXT": "2048", "WEFT_LOCAL_THREADS": "1"}
    assert settings_from(given) == RuntimeSettings(context_window=2_048, threads=1)
    with pytest.raises(ModelError, match="WEFT_LOCAL_CONTEXT is 'big'"):
        settings_from({"WEFT_LOCAL_CONTEXT": "big"})
