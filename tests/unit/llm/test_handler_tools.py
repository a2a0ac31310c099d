"""The tool loop: the engine decides which tools are called, not the model."""

import asyncio
from typing import Any

import pytest

from tests.given_tools import GivenTool, GivenTools
from tests.model_calls import a_call, a_step
from weft.config.sections import HandlerSettings
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolFailed, ToolUse
from weft.llm.events import ModelEvent, ToolCalled, ToolRefused
from weft.llm.handler import MAX_TOOL_USES, Handler
from weft.llm.payload import AssistantMessage, ToolMessage
from weft.llm.protocol import Features
from weft.llm.tool_calls import MAX_RESULT_CHARACTERS
from weft.secrets.references import Secret
from weft.testing.scripted_model import ScriptedModel, tool_use

ADD = GivenTool("system:add", lambda a, b: a + b)


async def run(
    answers: list[Any], tools: GivenTools, names: tuple[str, ...], **handler: Any
) -> tuple[TaskResult, ScriptedModel]:
    model = ScriptedModel(answers)
    call = a_call(tools=names, template="calc")
    return await Handler(model, tools, **handler).run(a_step(call), call), model


def told(model: ScriptedModel, payload: int = 1) -> list[ToolMessage]:
    return [one for one in model.payloads[payload].messages if isinstance(one, ToolMessage)]


async def test_a_listed_tool_is_called_and_its_result_goes_back() -> None:
    events: list[ModelEvent] = []
    result, model = await run(
        [tool_use("system:add", a=1, b=2), "three"], GivenTools(ADD), ("system:add",), on_event=events.append
    )

    assert result.content == "three"
    assert result.notes["tools"] == ["system:add"]
    assert result.notes["usage"]["turns"] == 2
    assert [tool.name for tool in model.payloads[0].tools] == ["system_add"]
    asked, message = model.payloads[1].messages[1:]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(message, ToolMessage)
    assert (message.content, message.tool_use_id, message.is_error) == ("3", asked.tool_uses[0].id, False)
    assert ToolCalled("3/1", "system:add") in events


async def test_a_tool_that_is_not_listed_is_neither_looked_for_nor_called() -> None:
    deleted: list[str] = []
    tools = GivenTools(ADD, GivenTool("system:delete", lambda path: deleted.extend([path])))
    events: list[ModelEvent] = []

    result, model = await run(
        [tool_use("system:delete", path="x"), tool_use("system_delete", path="x"), "sorry"],
        tools,
        ("system:add",),
        on_event=events.append,
    )

    assert deleted == []
    assert tools.looked_for == ["system:add"]
    assert [one["tool"] for one in result.notes["refusals"]] == ["system:delete", "system_delete"]
    assert [event.tool for event in events if isinstance(event, ToolRefused)] == [
        "system:delete",
        "system_delete",
    ]
    assert told(model)[0].is_error
    assert "system_add" in told(model)[0].content


async def test_a_long_name_of_a_tool_is_not_kept_whole() -> None:
    result, _ = await run([tool_use("x" * 100_000), "ok"], GivenTools(), ())

    assert len(result.notes["refusals"][0]["tool"]) == 200


async def test_a_task_without_tools_has_none() -> None:
    tools = GivenTools(ADD)

    result, model = await run([tool_use("system:add", a=1, b=2), "ok"], tools, ())

    assert (tools.looked_for, model.payloads[0].tools) == ([], ())
    assert len(result.notes["refusals"]) == 1


async def test_a_model_that_never_stops_is_ended_by_the_turns() -> None:
    with pytest.raises(TaskFailed) as caught:
        await run([tool_use("x")] * 9, GivenTools(), (), settings=HandlerSettings(max_turns=3))

    assert caught.value.error.resource == "turns"  # type: ignore[union-attr]
    assert caught.value.error.metrics == {"used": 3.0, "limit": 3.0}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [({"a": "1", "b": 2}, "a"), ({"a": 1}, "b"), ({"a": 1, "b": 2, "c": 3}, "c"), ("{oops", "JSON object")],
)
async def test_arguments_that_do_not_fit_go_back_as_an_error(arguments: Any, says: str) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    calls: list[Any] = []
    tool = GivenTool("system:add", lambda **given: calls.append(given), schema)
    use = ToolUse(id="1", name="system_add", arguments=arguments)

    result, model = await run([use, "ok"], GivenTools(tool), ("system:add",))

    assert (calls, result.notes.get("tools")) == ([], None)
    assert told(model)[0].is_error
    assert says in told(model)[0].content


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (nested(260), "nested deeper than 200 levels"),
        (nested(100_000), "nested deeper than 200 levels"),
        (10**5_000, "more than 14000 bits"),
        (float("nan"), "nan is no number of JSON"),
        ({1, 2}, "a Python set is no JSON"),
    ],
    ids=["deep", "very deep", "long", "nan", "set"],
)
@pytest.mark.parametrize("name", ["system:add", "system:spawn_subtask"])
async def test_arguments_that_are_no_json_go_back_as_an_error(name: str, value: Any, says: str) -> None:
    calls: list[Any] = []
    tool = GivenTool(name, lambda **given: calls.append(given), {"type": "object"})
    answers = ScriptedModel([tool_use(name, a=value), "ok"])
    call = a_call(tools=(name,))

    result = await Handler(answers, GivenTools(tool)).run(a_step(call), call)

    assert (calls, result.content) == ([], "ok")
    assert told(answers)[0].is_error
    assert says in told(answers)[0].content


async def test_arguments_with_too_many_parts_are_refused() -> None:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    _, model = await run([tool_use("system:add", a=value, b=1), "ok"], GivenTools(ADD), ("system:add",))

    assert "more than 200000 parts" in told(model)[0].content


async def test_halves_of_surrogate_pairs_in_arguments_are_replaced() -> None:
    tool = GivenTool("system:echo", lambda **given: given, {"type": "object"})
    use = ToolUse(id="\ud800", name="system:echo", arguments={"a\ud800": ["b\ud800"]})

    _, model = await run([use, "ok"], GivenTools(tool), ("system:echo",))

    assert told(model)[0].content == '{"a\ufffd": ["b\ufffd"]}'


async def test_a_schema_is_never_fetched() -> None:
    tool = GivenTool("t", lambda: 1, {"$ref": "file:///etc/passwd"})

    _, model = await run([tool_use("t"), "ok"], GivenTools(tool), ("t",))

    assert told(model)[0].is_error
    assert "root:" not in told(model)[0].content


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ToolFailed("no such file"), "no such file"),
        (ValueError("bad"), "ValueError: bad"),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "cancelled itself"),
    ],
)
async def test_a_tool_that_fails_is_told_to_the_model_without_a_traceback(
    error: BaseException, says: str
) -> None:
    def fail() -> None:
        raise error

    events: list[ModelEvent] = []
    result, model = await run(
        [tool_use("t"), "ok"], GivenTools(GivenTool("t", fail)), ("t",), on_event=events.append
    )

    assert result.content == "ok"
    assert told(model)[0].is_error
    assert says in told(model)[0].content
    assert "Traceback" not in told(model)[0].content
    assert ToolCalled("3/1", "t", is_error=True) in events


async def test_secrets_are_kept_from_the_model() -> None:
    key = Secret("abc123-4711", "KEY").reveal()

    def fail() -> None:
        raise ToolFailed(f"key {key} is bad")

    tools = GivenTools(GivenTool("bad", fail), GivenTool("good", lambda: f"it is {key}"))
    _, model = await run([(tool_use("bad"), tool_use("good")), "ok"], tools, ("bad", "good"))

    assert [one.content for one in told(model)] == ["key [secret KEY] is bad", "it is [secret KEY]"]


async def test_a_long_result_is_cut_and_says_so() -> None:
    long = "x" * (MAX_RESULT_CHARACTERS + 5)
    _, model = await run([tool_use("t"), "ok"], GivenTools(GivenTool("t", lambda: long)), ("t",))

    content = told(model)[0].content
    assert content.startswith("x" * MAX_RESULT_CHARACTERS + "\n[cut here")
    assert str(len(long)) in content


async def test_what_is_no_text_is_sent_as_json_that_can_be_sent() -> None:
    tools = GivenTools(GivenTool("a", lambda: {"b": [1, None]}), GivenTool("b", lambda: "\ud800"))
    _, model = await run([(tool_use("a"), tool_use("b")), "ok"], tools, ("a", "b"))

    contents = [one.content for one in told(model)]
    assert contents[0].replace(" ", "") == '{"b":[1,null]}'
    assert contents[1].encode()


async def test_tools_of_one_turn_run_together_and_answer_in_order() -> None:
    second = asyncio.Event()

    async def one() -> str:
        await second.wait()  # ends only when the other one has begun
        return "one"

    async def two() -> str:
        second.set()
        return "two"

    tools = GivenTools(GivenTool("one", one), GivenTool("two", two))
    _, model = await run([(tool_use("one"), tool_use("two")), "ok"], tools, ("one", "two"))

    assert [message.content for message in told(model)] == ["one", "two"]


async def test_no_more_tools_are_called_in_one_turn_than_are_allowed() -> None:
    calls: list[int] = []
    tools = GivenTools(GivenTool("t", lambda n: calls.extend([n])))
    uses = tuple(tool_use("t", n=number) for number in range(MAX_TOOL_USES + 2))

    result, model = await run([uses, "ok"], tools, ("t",))

    assert len(calls) == MAX_TOOL_USES
    assert len(result.notes["refusals"]) == 2
    assert len(told(model)) == MAX_TOOL_USES + 2


async def test_names_that_look_alike_are_told_apart() -> None:
    tools = GivenTools(GivenTool("a:b", lambda: "colon"), GivenTool("a.b", lambda: "dot"))
    _, model = await run([(tool_use("a_b"), tool_use("a_b_2")), "ok"], tools, ("a:b", "a.b"))

    assert [tool.name for tool in model.payloads[0].tools] == ["a_b", "a_b_2"]
    assert [message.content for message in told(model)] == ["colon", "dot"]


async def test_a_tool_knows_for_whom_it_is_called() -> None:
    tool = GivenTool("t", lambda: 1)

    await run([(tool_use("t"), tool_use("t")), "ok"], GivenTools(tool), ("t",))

    assert [(one.step_key, one.template) for one in tool.contexts] == [("3/1#2", "calc"), ("3/1#3", "calc")]


async def test_a_listed_tool_that_is_not_there_is_a_mistake_before_any_request() -> None:
    model = ScriptedModel(["ok"])
    call = a_call(tools=("system:sub",))

    with pytest.raises(TaskFailed, match="system:sub") as caught:
        await Handler(model, GivenTools(ADD)).run(a_step(call), call)

    assert caught.value.error.reason == "configuration_error"  # type: ignore[union-attr]
    assert model.payloads == []


async def test_a_model_that_has_no_tools_is_refused_for_a_task_that_lists_some() -> None:
    model = ScriptedModel(["ok"], features=Features(has_tools=False))
    call = a_call(tools=("system:add",))

    with pytest.raises(TaskFailed, match="cannot call tools"):
        await Handler(model, GivenTools(ADD)).run(a_step(call), call)


async def test_no_tool_is_looked_for_when_the_model_can_call_none() -> None:
    tools = GivenTools(ADD)
    call = a_call(tools=("system:add",))

    with pytest.raises(TaskFailed, match="cannot call tools"):
        await Handler(ScriptedModel([], features=Features(has_tools=False)), tools).run(a_step(call), call)

    assert tools.looked_for == []
