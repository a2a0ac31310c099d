"""Whatever a model says: the task ends, only listed tools are called, and what is set aside is freed."""

import asyncio
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.given_tools import GivenTool, GivenTools
from tests.model_calls import JSON, a_call, a_step
from weft.config.sections import HandlerSettings
from weft.evaluator.budget import Scope
from weft.evaluator.budget_account import ScopeAccount
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskResult
from weft.evaluator.tools import ToolFailed, ToolUse
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.handler import Handler
from weft.llm.payload import ModelReply, Usage
from weft.llm.protocol import Features
from weft.testing.scripted_model import ScriptedModel

VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(["a:read", "a_read", "a:fail", "a_fail", "a:write", "a_write", "", "a_read_2"])
USES = st.builds(
    ToolUse,
    id=st.text(max_size=5),
    name=NAMES | st.text(max_size=10),
    arguments=st.dictionaries(st.sampled_from(["path", "x"]), VALUES, max_size=2) | st.text(max_size=10),
)
REPLIES = st.builds(
    ModelReply,
    text=st.text(max_size=30) | st.sampled_from(["{{secret}}", '{"ok": 1}']),
    tool_uses=st.lists(USES, max_size=3).map(tuple),
    usage=st.builds(Usage, input_tokens=st.integers(0, 500), output_tokens=st.integers(0, 500)),
    finish_reason=st.sampled_from(["stop", "length", "tools", "filtered", "other"]),
    model=st.just("test:scripted"),
)
ERRORS = st.sampled_from(
    [
        ModelError("connection_error", "cut", partial_text="half"),
        ModelError("llm_error", "no", is_transient=True),
        ContextTooLong("llm_error", "too long"),
    ]
)
ANSWERS = st.lists(REPLIES | ERRORS, min_size=1, max_size=8)


@given(ANSWERS, st.booleans(), st.integers(0, 4000), st.integers(1, 6))
def test_any_model_ends_in_a_result_or_a_failure(
    answers: list[Any], is_json: bool, budget: int, max_turns: int
) -> None:
    called: list[str] = []

    def read(path: str) -> str:
        called.append("a:read")
        return path

    def fail(path: Any = None) -> None:
        called.append("a:fail")
        raise ToolFailed("cannot")

    def write(path: Any = None) -> None:
        raise AssertionError("it is not listed")

    schema = {"properties": {"path": {"type": "string"}}, "required": ["path"], "additionalProperties": False}
    tools = GivenTools(
        GivenTool("a:read", read, schema), GivenTool("a:fail", fail), GivenTool("a:write", write)
    )
    model = ScriptedModel(answers, features=Features(context_window=2000, max_output_tokens=200))
    scope = Scope({"tokens": budget})
    call = a_call(tools=("a:read", "a:fail"), output_format=JSON if is_json else None)
    handler = Handler(model, tools, HandlerSettings(max_turns=max_turns))

    try:
        result = asyncio.run(handler.run(a_step(call), call, ScopeAccount(scope, "it")))
    except TaskFailed as error:
        result = error.result()

    assert isinstance(result, TaskResult)
    assert msgspec.json.encode(result)  # what goes into a record
    assert set(tools.looked_for) == {"a:read", "a:fail"}
    assert len(model.payloads) <= max_turns
    assert scope.reserved == {"tokens": 0, "cost": 0}
    for payload in model.payloads:
        longest = (
            payload.metadata.max_tokens or 200
        )  # where the budget leaves as much, the model's own bound holds
        assert asyncio.run(model.count_tokens(payload)) + longest <= budget
