"""Spans, collected by the real SDK."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.given_tools import GivenTool, GivenTools
from weft import testing
from weft.app.app import App
from weft.app.evaluation import evaluate_async
from weft.app.programs import load_program
from weft.effects.local import LocalEffects
from weft.evaluator.errors import TaskFailed
from weft.evaluator.tools import ToolFailed
from weft.llm.errors import ModelError
from weft.secrets.references import Secret
from weft.tasks.record import Status
from weft.telemetry.spans import span

_EXPORTER = InMemorySpanExporter()
_PROVIDER = TracerProvider()
_PROVIDER.add_span_processor(SimpleSpanProcessor(_EXPORTER))


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Collect spans for the time of a test; a process can have one provider only."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", _PROVIDER)
    _EXPORTER.clear()
    yield _EXPORTER
    _EXPORTER.clear()


def tree(found: Sequence[ReadableSpan]) -> list[Any]:
    """Return the names as nested lists, in the order in which the spans began."""

    def below(parent: int | None) -> list[Any]:
        children = [one for one in found if (one.parent.span_id if one.parent else None) == parent]
        shown: list[Any] = []
        for child in sorted(children, key=lambda one: one.start_time or 0):
            inner = below(child.context.span_id)
            shown.append([child.name, *inner] if inner else child.name)
        return shown

    return below(None)


def named(spans: InMemorySpanExporter, name: str) -> ReadableSpan:
    return next(one for one in spans.get_finished_spans() if one.name == name)


async def test_a_task_holds_its_requests_and_its_tools(spans: InMemorySpanExporter) -> None:
    model = testing.ScriptedModel([testing.tool_use("test:echo", text="x"), "done"], id="openai:gpt-x")
    effects = LocalEffects(
        models=testing.models(model), tools=GivenTools(GivenTool("test:echo", lambda text: text))
    )

    await evaluate_async(
        '(deftask ask () :instructions "The prompt." :tools ("test:echo")) (ask)', effects=effects
    )

    assert tree(spans.get_finished_spans()) == [
        [
            "invoke_workflow",
            ["execute_task ask", "chat gpt-x", "execute_tool test:echo", "chat gpt-x"],
        ]
    ]
    chat = dict(named(spans, "chat gpt-x").attributes or {})
    assert chat.pop("gen_ai.usage.input_tokens") == await model.count_tokens(model.payloads[0])
    assert chat.pop("gen_ai.usage.output_tokens")
    assert chat == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-x",
        "gen_ai.response.model": "openai:gpt-x",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.output.type": "text",
    }
    assert named(spans, "chat gpt-x").kind is trace.SpanKind.CLIENT
    assert named(spans, "execute_tool test:echo").attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "test:echo",
        "gen_ai.tool.call.id": "use-1",
    }


async def test_branches_that_run_at_the_same_time_keep_their_own_spans(spans: InMemorySpanExporter) -> None:
    program = """
    (deftask inner (n) :instructions "inner {{n}}")
    (template outer (n) (sequential (inner n) (inner n)))
    (map (lambda (n) (outer n)) (list 1 2 3))
    """
    model = testing.ScriptedModel(lambda payload: payload.messages[-1].content, latency_seconds=0.001)

    await evaluate_async(program, effects=LocalEffects(models=testing.models(model)))

    (run,) = tree(spans.get_finished_spans())
    inner = ["execute_task inner", "chat scripted"]
    assert run[0] == "invoke_workflow"
    assert len(run) == 4
    for one in run[1:]:
        assert one == ["execute_task outer", inner, inner]


async def test_an_error_is_told_by_its_type_and_not_in_words(spans: InMemorySpanExporter) -> None:
    model = testing.ScriptedModel([ModelError("connection_error", "the words of the prompt")])

    with pytest.raises(TaskFailed):
        await evaluate_async('(deftask ask () :instructions "Hi.") (ask)', model=model)

    for one in spans.get_finished_spans():
        assert one.status.status_code is StatusCode.ERROR
        assert one.status.description is None
        assert (one.attributes or {})["error.type"] == "connection_error"
    assert "the words" not in str([one.to_json() for one in spans.get_finished_spans()])


async def test_content_is_told_only_when_it_is_asked_for(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Secret("otel-81hd/72+Kq", "OTEL").reveal()
    program = f'(deftask ask () :instructions "The prompt {key}.") (ask)'
    await evaluate_async(program, model=testing.ScriptedModel(["The answer."]))
    quiet = "".join(one.to_json() for one in spans.get_finished_spans())
    monkeypatch.setenv("WEFT_OTEL_CONTENT", "1")
    await evaluate_async(program, model=testing.ScriptedModel(["The answer."]))
    told = "".join(one.to_json() for one in spans.get_finished_spans())

    assert "The prompt" not in quiet
    assert "The answer" not in quiet
    assert "The prompt [secret OTEL]." in told
    assert "The answer." in told
    assert key not in told


async def test_a_call_of_a_tool_that_failed_has_the_status_of_an_error(spans: InMemorySpanExporter) -> None:
    def refuse(text: str) -> str:
        raise ToolFailed("no")

    model = testing.ScriptedModel([testing.tool_use("test:echo", text="x"), "done"])
    effects = LocalEffects(models=testing.models(model), tools=GivenTools(GivenTool("test:echo", refuse)))
    await evaluate_async(
        '(deftask ask () :instructions "The prompt." :tools ("test:echo")) (ask)', effects=effects
    )

    called = named(spans, "execute_tool test:echo")
    assert called.status.status_code is StatusCode.ERROR
    assert (called.attributes or {})["error.type"] == "tool_execution_error"


async def test_content_has_the_form_of_the_conventions(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_OTEL_CONTENT", "1")
    model = testing.ScriptedModel([testing.tool_use("test:echo", text="x"), "done"], id="openai:gpt-x")
    effects = LocalEffects(
        models=testing.models(model), tools=GivenTools(GivenTool("test:echo", lambda text: text))
    )
    template = '(deftask ask (data) :system "Be kind." :instructions "The prompt." :tools ("test:echo"))'
    await evaluate_async(f'{template} (ask "the data")', effects=effects)

    first, second = (one.attributes or {} for one in spans.get_finished_spans() if one.name == "chat gpt-x")
    (instructions,) = json.loads(str(first["gen_ai.system_instructions"]))
    assert instructions["type"] == "text"
    assert "Be kind." in instructions["content"]
    (asked,) = json.loads(str(first["gen_ai.input.messages"]))
    assert (asked["role"], [part["type"] for part in asked["parts"]]) == ("user", ["text", "text"])
    assert "the data" in asked["parts"][0]["content"]
    assert asked["parts"][1]["content"] == "The prompt."
    use = {"type": "tool_call", "id": "use-1", "name": "test_echo", "arguments": {"text": "x"}}
    assert json.loads(str(first["gen_ai.output.messages"])) == [
        {"role": "assistant", "parts": [use], "finish_reason": "tool_call"}
    ]
    response = {"type": "tool_call_response", "id": "use-1", "response": "x"}
    assert json.loads(str(second["gen_ai.input.messages"]))[1:] == [
        {"role": "assistant", "parts": [use]},
        {"role": "tool", "parts": [response]},
    ]
    done = {"role": "assistant", "parts": [{"type": "text", "content": "done"}], "finish_reason": "stop"}
    assert json.loads(str(second["gen_ai.output.messages"])) == [done]


async def test_the_tasks_of_a_flow_are_inside_of_its_run(spans: InMemorySpanExporter, tmp_path: Path) -> None:
    flow = [
        {"name": "first", "schemas": {"method": "noop"}},
        {"name": "second", "schemas": {"method": "command"}, "inputs": {"argv": ["false"]}},
    ]
    with span("host"):
        async with await App.open(str(tmp_path / "weft.db")) as app:
            await app.run(flow)

    assert tree(spans.get_finished_spans()) == [
        ["host", ["invoke_workflow", "execute_task first", "execute_task second"]]
    ]
    second = named(spans, "execute_task second").attributes or {}
    assert (second["weft.executor"], second["weft.task.attempt"]) == ("command", 1)
    assert second["error.type"] == "execution-failed"
    assert second["weft.flow.id"] == (named(spans, "invoke_workflow").attributes or {})["weft.flow.id"]


async def test_a_cancelled_request_ends_its_span(spans: InMemorySpanExporter) -> None:
    began = asyncio.Event()

    async def sleep(_: float) -> None:
        began.set()
        await asyncio.Event().wait()

    model = testing.ScriptedModel(["x"], latency_seconds=1, sleep=sleep)
    work = asyncio.create_task(evaluate_async('(deftask ask () :instructions "Hi.") (ask)', model=model))
    await began.wait()
    work.cancel()

    with pytest.raises(asyncio.CancelledError):
        await work
    assert (named(spans, "chat scripted").attributes or {})["error.type"] == "CancelledError"


LOADED = """
import sys
from weft.app.evaluation import evaluate
from weft.testing import ScriptedModel
evaluate('(deftask ask () :instructions "Hi.") (ask)', model=ScriptedModel(["x"]))
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""


def test_nothing_is_imported_while_nobody_collects_spans() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_span_is_nothing_while_the_api_has_no_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)

    with span("x") as nothing:
        nothing.set({"a": 1})
        assert not trace.get_current_span().get_span_context().is_valid


async def test_an_attempt_that_comes_to_rest_ends_its_span_and_has_not_failed(
    spans: InMemorySpanExporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.runs.questions.QUIET_SECONDS", 0.01)
    program = load_program('(get (system:request_user_input :question "Who?") "answer")')
    async with await App.open(tmp_path / "weft.db", new_effects=lambda _: LocalEffects()) as app:
        root_id = await app.begin_program(program, {}, name="asking")
        await app.wait(root_id)
        assert (await app.get(root_id)).status is Status.PENDING
        rested = [named(spans, name) for name in ("execute_task asking", "invoke_workflow")]
        spans.clear()
        [question] = await app.questions(root_id)
        await app.answer(question.id, "Ada")
        await app.begin(root_id)
        await app.wait(root_id)
        assert (await app.get(root_id)).status is Status.COMPLETED

    for one in rested:
        assert one.end_time is not None
        assert one.status.status_code is StatusCode.UNSET
        assert "error.type" not in (one.attributes or {})
    assert named(spans, "execute_task asking").attributes
