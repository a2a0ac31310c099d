"""What a run has cost, from what is stored of it, on every store."""

import asyncio
from typing import Any

import pytest
from msgspec import structs

from tests.given_tools import GivenTool, GivenTools
from tests.runs_bench import MortalStore, RunsBench
from weft.cli.display.tree import spending
from weft.effects.local import LocalEffects
from weft.llm.payload import ModelReply, ToolMessage, Usage
from weft.runs.outcome import Spent, spent_by
from weft.store.protocol import TaskStore
from weft.tasks.record import Status
from weft.tasks.steps import Usage as Spending
from weft.testing import ScriptedModel, models, tool_use

ASK = '(deftask ask (x) :instructions "{{x}}")\n'
LOOK = '(deftask look () :instructions "look" :tools ("notes:read"))\n(look)'


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


def said(text: str, tokens: int, **facts: Any) -> ModelReply:
    usage = Usage(input_tokens=10, output_tokens=tokens, cost=0.25)
    return ModelReply(text=text, model="test:scripted", usage=usage, **facts)


class Unpriced(ScriptedModel):
    """Nobody knows what it costs."""

    def price(self, usage: Usage) -> None:
        return None


async def spent(runs: RunsBench, root_id: Any) -> Spent:
    return spent_by(await runs.flow(root_id))


async def test_a_failed_call_is_counted_also_after_it_was_tried_again(runs: RunsBench) -> None:
    is_filtered = True

    def reply(payload: Any) -> ModelReply:
        return said("no", 990, finish_reason="filtered") if is_filtered else said("yes", 5)

    runs.with_handler(reply)
    outcome = await runs.run(ASK + '(ask "x")')
    assert outcome.status is Status.FAILED
    first = (await spent(runs, outcome.root_id)).usage
    assert (first.turns, first.output_tokens, first.cost) == (1, 990, 0.25)
    _, step = await runs.flow(outcome.root_id)
    assert list(spending(step)) == ["1,000 tokens", "$0.2500"]

    is_filtered = False
    await runs.go_on(outcome.root_id)

    both = (await spent(runs, outcome.root_id)).usage
    assert (both.turns, both.input_tokens, both.output_tokens, both.cost) == (2, 20, 995, 0.5)


async def test_turns_of_a_session_that_never_ended_are_counted_and_once_only(runs: RunsBench) -> None:
    mortal = MortalStore(runs.store)

    def reply(payload: Any) -> Any:
        if not any(isinstance(message, ToolMessage) for message in payload.messages):
            return said("", 7, finish_reason="tools", tool_uses=(tool_use("notes_read"),))
        mortal.die()
        return said("done", 3)

    runs.with_handler(reply, tools=GivenTools(GivenTool("notes:read", lambda: "n")))
    root_id = await runs.begin(LOOK)
    assert await runs.live(root_id, mortal)
    assert (await spent(runs, root_id)).usage == Spending(1, 10, 7, 0.25)

    await runs.go_on(root_id)

    whole = (await spent(runs, root_id)).usage
    assert (whole.turns, whole.output_tokens, whole.cost) == (2, 10, 0.5)


async def test_turns_of_a_session_that_ended_with_its_run_are_counted_once_after_a_retry(
    runs: RunsBench,
) -> None:
    may_end, is_reading = asyncio.Event(), asyncio.Event()

    def reply(payload: Any) -> Any:
        if not any(isinstance(message, ToolMessage) for message in payload.messages):
            return said("", 7, finish_reason="tools", tool_uses=(tool_use("notes_read"),))
        return said("done", 3)

    async def read() -> str:
        is_reading.set()
        await may_end.wait()
        return "n"

    runs.with_handler(reply, tools=GivenTools(GivenTool("notes:read", read)))
    root_id = await runs.begin(LOOK)
    mortal = MortalStore(runs.store)
    living = asyncio.create_task(runs.live(root_id, mortal))
    await asyncio.wait_for(is_reading.wait(), 30)
    mortal.die()
    await living
    runs.limits = structs.replace(runs.limits, max_losses=1)
    assert (await runs.go_on(root_id)).status is Status.FAILED
    assert (await spent(runs, root_id)).usage == Spending(1, 10, 7, 0.25)

    may_end.set()
    assert (await runs.go_on(root_id)).status is Status.COMPLETED

    whole = (await spent(runs, root_id)).usage
    assert (whole.turns, whole.output_tokens, whole.cost) == (2, 10, 0.5)


async def test_what_was_spent_until_a_limit_was_reached_is_counted(runs: RunsBench) -> None:
    runs.with_handler(lambda payload: said('{"a": ', 40, finish_reason="length"))

    outcome = await runs.run('(deftask ask () :instructions "x" :output "json") (ask)')

    assert outcome.status is Status.FAILED
    usage = (await spent(runs, outcome.root_id)).usage
    assert (usage.turns, usage.output_tokens) == (1, 40)


async def test_each_turn_without_a_known_price_is_told(runs: RunsBench) -> None:
    runs.effects = lambda: LocalEffects(
        models=models(Unpriced([tool_use("notes_read"), "done"])),
        tools=GivenTools(GivenTool("notes:read", lambda: "n")),
    )

    outcome = await runs.run(LOOK)

    usage = (await spent(runs, outcome.root_id)).usage
    assert (usage.turns, usage.unpriced) == (2, 2)
