"""Answers that say CONTINUATION in durable programs: each is a turn, kept as those that use tools are."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.given_tools import GivenTools
from tests.runs_bench import MortalStore, RunsBench
from weft.evaluator.tools import ToolContext
from weft.ids import TaskId
from weft.llm.payload import HandlerPayload, ToolMessage
from weft.runs.outcome import RunOutcome
from weft.store.models import StoredStep
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status
from weft.testing import tool_use
from weft.tools.functions import FunctionTool

PARTS = """(deftask part (text) :instructions "Sum up {{text}}")
(deftask asker () :instructions "Ask somebody" :tools ("system:request_user_input"))
(deftask whole (text) :instructions "Do {{text}}" :tools ("system:spawn_subtask"))"""


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


def continuation(name: str, **inputs: str) -> str:
    request = {
        "type": "atomic",
        "name": name,
        "inputs": inputs,
        "context_management": {"fresh_context": "disabled"},
    }
    return json.dumps({"status": "CONTINUATION", "notes": {"subtask_request": request}})


async def error_of(runs: RunsBench, outcome: RunOutcome) -> str:
    assert outcome.status is Status.FAILED
    return (await runs.store.get(outcome.root_id, owner=EVERYONE)).error or ""


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
async def test_an_answer_that_asks_for_a_subtask_is_not_asked_for_again(
    runs: RunsBench, is_written: bool
) -> None:
    def reply(payload: HandlerPayload) -> str:
        if payload.messages[0].content.startswith("Sum"):
            return "a sum"
        return "done" if len(payload.messages) > 1 else continuation("part", text="x")

    runs.with_handler(reply)
    program = f'{PARTS} (list (whole "it") (part "last"))'
    tree = await runs.tree((await runs.run(program, reuse=False)).root_id)
    assert [name for _, name, _ in tree] == [
        "run",
        "whole",
        "turn 1",
        "system:spawn_subtask",
        "part",
        "part",
        "part",
    ]
    dies_at = 0
    while True:
        dies_at += 1 if runs.is_sqlite else 4
        runs.asked.clear()
        root_id = await runs.begin(program, reuse=False)
        if not await runs.die(root_id, dies_at=dies_at, is_written=is_written):
            break
        before = runs.asked.copy()
        stored = [task for task in await runs.flow(root_id) if task.status is Status.COMPLETED]
        answers = sum(task.name in {"turn 1", "whole"} for task in stored)
        answers += sum(task.name == "part" and "prompt" in (task.params or {}) for task in stored)
        outcome = await runs.go_on(root_id)

        assert outcome.status is Status.COMPLETED, dies_at
        assert await runs.tree(root_id) == tree, dies_at
        assert sum((runs.asked - before).values()) == 4 - answers, dies_at
    assert dies_at > 8


async def test_no_turn_is_repeated_when_a_subtask_waits_for_a_person(runs: RunsBench) -> None:
    def reply(payload: HandlerPayload) -> Any:
        if payload.messages[0].content.startswith("Ask"):
            is_told = any(isinstance(message, ToolMessage) for message in payload.messages)
            return "thanks" if is_told else tool_use("system_request_user_input", question="Well?")
        return "done" if len(payload.messages) > 1 else continuation("asker")

    runs.with_handler(reply)
    resting = await runs.run(f'{PARTS} (whole "it")', reuse=False)
    assert resting.status is Status.PENDING
    (question,) = await runs.app().questions(resting.root_id)
    await runs.app().answer(question.id, "yes")

    assert (await runs.go_on(resting.root_id)).status is Status.COMPLETED
    assert runs.asked["Do it"] == 1


async def test_a_model_that_asks_for_another_subtask_is_not_given_what_came_of_the_first(
    runs: RunsBench,
) -> None:
    """A turn that was not kept, as a run of an earlier version has it, and what came of it."""
    wanted, mortal = ["x1", "x2"], MortalStore(runs.store)

    def reply(payload: HandlerPayload) -> str:
        if payload.messages[0].content.startswith("Sum"):
            return "a sum"
        if len(payload.messages) == 1:
            return continuation("part", text=wanted.pop(0))
        mortal.die()
        return "done"

    runs.with_handler(reply)
    root_id = await runs.begin(f'{PARTS} (whole "it")', reuse=False)
    assert await runs.live(root_id, mortal)
    real = runs.store.steps_of

    async def without_turns(task_id: TaskId) -> Sequence[StoredStep]:
        return [step for step in await real(task_id) if not step.task.name.startswith("turn")]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs.store, "steps_of", without_turns)
        error = await error_of(runs, await runs.go_on(root_id))

    assert error.startswith("replay-differs: step 1#2 at <text>:")
    assert "recorded 'system:spawn_subtask' with other inputs, now" in error


@pytest.mark.parametrize(
    "program",
    ["(own:ask)", '(deftask look () :instructions "look" :tools ("own:ask")) (look)'],
    ids=["program", "model"],
)
async def test_another_question_is_not_answered_with_the_answer_to_the_first(
    runs: RunsBench, program: str
) -> None:
    questions = ["Which one?", "How many?"]

    async def ask(context: ToolContext) -> str:
        assert context.ask_person is not None
        return await context.ask_person(questions.pop(0), context.step_key)

    def reply(payload: HandlerPayload) -> Any:
        is_told = any(isinstance(message, ToolMessage) for message in payload.messages)
        return "done" if is_told else tool_use("own_ask")

    tool = FunctionTool(ask, name="own:ask", description="Asks.", has_effects=True)
    runs.with_handler(reply, tools=GivenTools(tool))
    resting = await runs.run(program)
    assert resting.status is Status.PENDING
    (question,) = await runs.app().questions(resting.root_id)
    await runs.app().answer(question.id, "the red one")
    error = await error_of(runs, await runs.go_on(resting.root_id))

    assert error.startswith("replay-differs: step 1")
    assert "recorded 'Which one?', now 'How many?'" in error
