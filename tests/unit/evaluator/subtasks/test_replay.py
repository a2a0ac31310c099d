"""Subtasks on effects that keep every step by its key: stopped anywhere, run again, nothing is done twice."""

from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.subtasks import World, heard, spawn
from weft.errors import InternalError
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, Step
from weft.evaluator.results import TaskResult
from weft.llm.payload import HandlerPayload

PROGRAM = """
(deftask explain (topic) :instructions "Explain {{topic}}." :context (:fresh "disabled"))
(template both (one other) (sequential (explain one) (explain other)))
(deftask boss (goal) :instructions "Reach {{goal}}." :tools ("system:spawn_subtask"))
(list (boss "a") (explain "at last"))
"""


def pair(one: str, other: str) -> Any:
    return spawn("both", type="sequential", inputs={"one": one, "other": other})


def answer(payload: HandlerPayload) -> Any:
    """Two subtasks at the same time, one more, and the answer; the others say their prompt."""
    if payload.metadata.template != "boss":
        return f"said: {payload.messages[0].content}"
    rounds: list[Any] = [(pair("a", "b"), pair("c", "d")), pair("e", "f"), "done"]
    return rounds[{0: 0, 2: 1, 3: 2}[len(heard(payload))]]


class Stopped(Exception):
    """The process is gone."""


class Kept(World):
    """Keeps the result of every step by its key with what was asked; stops when so many are kept."""

    def __init__(self, folder: Path, kept: dict[str, tuple[bytes, TaskResult]], stop_at: int | None) -> None:
        super().__init__(folder, answer)
        self.kept = kept
        self.stop_at = stop_at

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        return await self._once(step, lambda: super(Kept, self).call_model(step, call, account))

    async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        return await self._once(step, body)

    async def _once(self, step: Step, act: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
        asked = msgspec.json.encode(step.request)
        if step.key in self.kept:
            before, result = self.kept[step.key]
            assert asked == before, f"step {step.key} is another one than before"
            return result
        result = await act()
        self.kept[step.key] = (asked, result)
        if self.stop_at is not None and len(self.kept) >= self.stop_at:
            raise Stopped
        return result


async def test_a_program_with_subtasks_goes_on_wherever_it_was_stopped(tmp_path: Path) -> None:
    whole: dict[str, tuple[bytes, TaskResult]] = {}
    expected = [one.content for one in await Kept(tmp_path, whole, None).run(PROGRAM)]
    assert expected == ["done", "said: Explain at last."]
    assert len(whole) == 14

    for count in range(1, len(whole)):
        kept: dict[str, tuple[bytes, TaskResult]] = {}
        first = Kept(tmp_path, kept, count)
        with pytest.raises(InternalError, match="Stopped"):
            await first.run(PROGRAM)
        committed = {key for key in kept if b'"prompt"' in kept[key][0]}
        second = Kept(tmp_path, kept, None)

        assert [one.content for one in await second.run(PROGRAM)] == expected
        assert kept.keys() == whole.keys()
        asked = Counter(str(one.messages[0].content) for one in second.model.payloads)
        for key in committed:
            prompt = msgspec.json.decode(kept[key][0])["prompt"]
            assert asked[prompt] == 0, f"stopped at {count}: '{prompt}' was paid for twice"
