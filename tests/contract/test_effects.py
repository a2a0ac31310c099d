"""What every implementation of Effects must do. To have another one pass, add its factory to EFFECTS."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec import UNSET

from tests.given_tools import GivenTool, GivenTools
from weft import testing
from weft.config.sections import CommandSettings
from weft.effects.local import LocalEffects
from weft.evaluator.effects import (
    Composite,
    ContextPayload,
    ContextQuery,
    Effects,
    ModelCall,
    ScriptOutcome,
    ScriptRun,
    Step,
    ToolCall,
)
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.language.task_fields import ContextManagement
from weft.llm.errors import ModelError
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.llm.protocol import StaticModels
from weft.testing.in_memory_effects import InMemoryEffects
from weft.testing.scripted_model import ScriptedModel


class Factory(Protocol):
    """Makes effects whose model, scripts, tools and files answer as told."""

    def __call__(
        self,
        *,
        answer: Callable[[ModelCall], Any],
        outcome: Callable[[ScriptRun], ScriptOutcome],
        tools: dict[str, Callable[..., Any]],
        files: dict[str, str],
    ) -> Effects: ...


def in_memory(
    *,
    answer: Callable[[ModelCall], Any],
    outcome: Callable[[ScriptRun], ScriptOutcome],
    tools: dict[str, Callable[..., Any]],
    files: dict[str, str],
) -> Effects:
    return InMemoryEffects(answer, scripts=outcome, tools=tools, files=files)


def local(
    *,
    answer: Callable[[ModelCall], Any],
    outcome: Callable[[ScriptRun], ScriptOutcome],
    tools: dict[str, Callable[..., Any]],
    files: dict[str, str],
) -> Effects:
    """Scripts and files are real ones: `outcome` and `files` say what they come to."""

    def reply(payload: HandlerPayload) -> Any:
        said = answer(model_step(payload.messages[-1].content)[1])
        if isinstance(said, TaskFailed):
            assert isinstance(said.error, TaskFailure)
            return ModelError(said.error.reason, said.error.message)
        usage = Usage(input_tokens=1, output_tokens=said.notes["usage"]["tokens"] - 1)
        return ModelReply(text=said.content, usage=usage, model="test:scripted")

    given = GivenTools(*(GivenTool(name, act) for name, act in tools.items()))
    return LocalEffects(
        models=StaticModels(ScriptedModel(reply)),
        tools=given,
        commands=CommandSettings(),
        memory=testing.memory(Path(__file__).parent),
    )


EFFECTS: list[Factory] = [in_memory, local]


@pytest.fixture(params=EFFECTS)
def effects(request: pytest.FixtureRequest) -> Effects:
    def answer(call: ModelCall) -> Any:
        if call.prompt == "fail":
            return TaskFailed(TaskFailure("llm_error", "no"))
        return TaskResult(f"said {call.prompt}", "COMPLETE", notes={"usage": {"tokens": 3}})

    made: Effects = request.param(
        answer=answer,
        outcome=lambda run: ScriptOutcome("ran it", "err", 3),
        tools={"system:add": lambda one, other=0: one + other},
        files={"a.json": '{"type": "string"}'},
    )
    return made


def model_step(prompt: str, key: str = "1") -> tuple[Step, ModelCall]:
    settings = ContextManagement("full", False, "notes_only", "disabled")
    call = ModelCall(prompt=prompt, context=ContextPayload(settings=settings))
    return Step(key, call), call


async def test_a_model_answers_with_its_content_unparsed(effects: Effects) -> None:
    result = await effects.call_model(*model_step("x"))

    assert (result.content, result.status) == ("said x", "COMPLETE")
    assert result.parsed_content is UNSET
    assert result.notes["usage"]["tokens"] == 3


async def test_a_model_that_fails_raises(effects: Effects) -> None:
    with pytest.raises(TaskFailed) as failed:
        await effects.call_model(*model_step("fail"))

    assert isinstance(failed.value.error, TaskFailure)
    assert (failed.value.error.reason, failed.value.error.message) == ("llm_error", "no")


async def test_a_script_that_ends_badly_is_an_outcome_and_no_error(effects: Effects) -> None:
    run = ScriptRun(argv=("sh", "-c", "printf 'ran it'; printf err >&2; exit 3"))

    assert await effects.run_script(Step("1", run), run) == ScriptOutcome("ran it", "err", 3)


async def test_a_tool_gets_positional_arguments_and_keywords(effects: Effects) -> None:
    call = ToolCall(tool="system:add", positional=(1,), arguments={"other": 2})

    assert await effects.call_tool(Step("1", call), call) == 3


async def test_a_tool_that_gets_the_wrong_arguments_raises(effects: Effects) -> None:
    for call in (
        ToolCall(tool="system:add", positional=(1, 2, 3)),
        ToolCall(tool="system:add", positional=(1,), arguments={"one": 2}),
        ToolCall(tool="system:add"),
    ):
        with pytest.raises(TaskFailed) as failed:
            await effects.call_tool(Step("1", call), call)
        assert failed.value.result().notes["error"]["reason"] == "tool_execution_error"


async def test_a_tool_that_is_not_there_raises(effects: Effects) -> None:
    call = ToolCall(tool="system:none")

    with pytest.raises(TaskFailed):
        await effects.call_tool(Step("1", call), call)


async def test_the_names_of_tools_are_known(effects: Effects) -> None:
    assert effects.tools() in (None, frozenset({"system:add"}))


async def test_context_is_an_associative_match_result(effects: Effects) -> None:
    query = ContextQuery(query="cats")
    found = await effects.get_context(Step("1", query), query)

    assert isinstance(found["context_summary"], str)
    assert isinstance(found["matches"], list)


async def test_around_gives_the_result_of_the_body(effects: Effects) -> None:
    async def body() -> TaskResult:
        return await effects.call_model(*model_step("inner", "1/1"))

    result = await effects.around(Step("1", Composite(kind="sequential")), body)

    assert result.content == "said inner"


async def test_around_lets_the_failure_of_the_body_through(effects: Effects) -> None:
    async def body() -> TaskResult:
        raise TaskFailed(TaskFailure("subtask_failure", "inner"))

    with pytest.raises(TaskFailed, match="inner"):
        await effects.around(Step("1", Composite(kind="sequential")), body)


async def test_around_is_cancelled_with_its_body(effects: Effects) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def body() -> TaskResult:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("cannot be reached")

    running = asyncio.ensure_future(effects.around(Step("1", Composite(kind="sequential")), body))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert ended.is_set()


async def test_effects_may_be_under_way_at_the_same_time(effects: Effects) -> None:
    asked = [effects.call_model(*model_step(str(number), str(number))) for number in range(100)]

    assert [result.content for result in await asyncio.gather(*asked)] == [f"said {n}" for n in range(100)]


def test_a_schema_file_is_read(effects: Effects, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"type": "string"}')
    program = str(tmp_path / "program.sexp")

    assert effects.schema_text("a.json", program) == '{"type": "string"}'
    with pytest.raises(OSError, match="none"):
        effects.schema_text("none.json", program)
