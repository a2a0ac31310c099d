"""Sessions with tools in durable programs: no turn and no tool is repeated after a crash."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.given_tools import GivenTool, GivenTools
from tests.runs_bench import MortalStore, RunsBench
from weft.llm.payload import HandlerPayload, ToolMessage
from weft.runs import sessions
from weft.store.protocol import TaskStore
from weft.tasks.record import Status
from weft.testing import tool_use

PROGRAM = """(deftask look (what) :instructions "{{what}}" :tools ("notes:read" "notes:write"))
(list (look "first") (look "second"))"""


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


class Notes:
    """Two tools that count, and a model that reads, writes and then says what it saw."""

    def __init__(self) -> None:
        self.called: list[str] = []
        self.mortal: MortalStore | None = None

    def tools(self) -> GivenTools:
        return GivenTools(
            GivenTool("notes:read", lambda: self._note("read")),
            GivenTool("notes:write", lambda: self._note("write")),
        )

    def _note(self, what: str) -> str:
        self.called.append(what)
        return f"{what} {len(self.called)}"

    def answer(self, payload: HandlerPayload) -> Any:
        given = [message.content for message in payload.messages if isinstance(message, ToolMessage)]
        if not given:
            return tool_use("notes_read")
        if len(given) == 1:
            return tool_use("notes_write")
        return ", ".join(given)


async def test_a_session_has_a_record_for_every_turn_that_uses_a_tool(runs: RunsBench) -> None:
    notes = Notes()
    runs.with_handler(notes.answer, tools=notes.tools())
    outcome = await runs.run(PROGRAM)

    assert outcome.result is not None
    assert outcome.result.value == ["read 1, write 2", "read 3, write 4"]
    session = [
        (2, "turn 1", "completed"),
        (2, "notes_read", "completed"),
        (2, "turn 3", "completed"),
        (2, "notes_write", "completed"),
    ]
    look = [(1, "look", "completed"), *session]
    assert await runs.tree(outcome.root_id) == [(0, "run", "completed"), *look, *look]


async def test_what_an_evaluation_has_opened_is_closed_with_it(runs: RunsBench) -> None:
    notes, tools = Notes(), Notes().tools()
    runs.with_handler(notes.answer, tools=tools)
    await runs.run(PROGRAM)

    assert tools.is_closed


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
async def test_no_turn_and_no_tool_whose_end_is_stored_is_repeated(runs: RunsBench, is_written: bool) -> None:
    dies_at = 0
    while True:
        dies_at += 1 if runs.is_sqlite else 5
        notes = Notes()
        runs.with_handler(notes.answer, tools=notes.tools())
        runs.asked.clear()
        root_id = await runs.begin(PROGRAM, reuse=False)
        if not await runs.die(root_id, dies_at=dies_at, is_written=is_written):
            break
        made = (sum(runs.asked.values()), len(notes.called))
        stored = [task for task in await runs.flow(root_id) if task.status is Status.COMPLETED]
        kept = sum(task.name.startswith("turn") for task in stored)
        ends = sum(task.name == "look" for task in stored)
        tools = sum(task.name.startswith("notes") for task in stored)
        outcome = await runs.go_on(root_id)

        assert outcome.status is Status.COMPLETED, dies_at
        assert sum(runs.asked.values()) - made[0] == 6 - kept - ends, dies_at
        assert len(notes.called) - made[1] == 4 - tools, dies_at
    assert dies_at > 10


async def test_a_task_that_uses_tools_is_not_linked_unless_it_says_so(runs: RunsBench) -> None:
    notes = Notes()
    runs.with_handler(notes.answer, tools=notes.tools())
    await runs.run(PROGRAM)
    await runs.run(PROGRAM)
    assert len(notes.called) == 8

    saying_so = PROGRAM.replace(":tools", ":reuse true :tools")
    await runs.run(saying_so)
    outcome = await runs.run(saying_so)
    assert outcome.status is Status.COMPLETED
    assert len(notes.called) == 12


async def test_nothing_is_digested_that_no_other_run_may_have(
    runs: RunsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digested(*parts: object) -> str:
        raise AssertionError("for nobody")

    notes = Notes()
    runs.with_handler(notes.answer, tools=notes.tools())
    monkeypatch.setattr(sessions, "payload_digest", digested)

    assert (await runs.run(PROGRAM)).status is Status.COMPLETED


READING = """(deftask look () :instructions "look" :tools ("notes:read" "notes:write") :files ("a.txt"))
(look)"""


async def test_a_session_goes_on_with_the_files_that_it_began_with(
    runs: RunsBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "a.txt"
    file.write_text("the old text")
    notes, mortal, seen = Notes(), MortalStore(runs.store), list[bool]()

    def reply(payload: HandlerPayload) -> Any:
        seen.append("the old text" in (payload.context or ""))
        if len(seen) == 2:
            mortal.die()
        return notes.answer(payload)

    runs.with_handler(reply, tools=notes.tools())
    root_id = await runs.begin(READING, reuse=False)
    assert await runs.live(root_id, mortal)
    file.unlink()
    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.COMPLETED
    assert seen == [True] * 4  # the second turn was made twice: its answer was not stored
    again = await runs.run(READING, reuse=False)
    assert again.status is Status.FAILED
    assert len(seen) == 4, "nothing is asked about a file that is not there"


SPAWNING = """(deftask part (text) :instructions "Sum up {{text}}")
(deftask whole (text) :instructions "Do {{text}}" :tools ("system:spawn_subtask"))
(list (whole "it") (part "last"))"""


def spawns(payload: HandlerPayload) -> Any:
    given = [message.content for message in payload.messages if isinstance(message, ToolMessage)]
    prompt = payload.messages[0].content
    if prompt.startswith("Do") and not given:
        return tool_use(
            "system_spawn_subtask",
            type="atomic",
            description="a part",
            name="part",
            inputs={"text": "a part"},
            context_management={"fresh_context": "disabled"},
        )
    return f"{prompt}: {given[-1]}" if given else prompt


async def test_a_model_is_told_the_same_of_a_subtask_that_is_a_link(runs: RunsBench) -> None:
    said: list[Any] = []

    def reply(payload: HandlerPayload) -> Any:
        said.extend(message.content for message in payload.messages if isinstance(message, ToolMessage))
        return spawns(payload)

    runs.with_handler(reply)
    outcomes = [await runs.run(SPAWNING) for _ in range(2)]

    linked = [task for task in await runs.flow(outcomes[1].root_id) if task.original_task_id is not None]
    assert len(linked) == 2
    assert len(said) == 2
    assert said[0] == said[1]


async def test_a_run_rests_after_a_budget_has_ended_what_a_session_spawned(runs: RunsBench) -> None:
    runs.with_handler(spawns)
    within = '(try (with-budget (:calls 1) (whole "it")) (catch e "too much"))'
    ask = '(system:request_user_input :question "Go on?")'
    async with asyncio.timeout(60):  # it hung
        outcome = await runs.run(SPAWNING.replace('(whole "it")', f"{within} {ask}"), reuse=False)

    assert outcome.status is Status.PENDING
    assert (2, "system_spawn_subtask", "failed") in await runs.tree(outcome.root_id)


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
async def test_what_a_session_spawns_is_kept_too(runs: RunsBench, is_written: bool) -> None:
    runs.with_handler(spawns)
    whole = await runs.run(SPAWNING, reuse=False)
    assert whole.status is Status.COMPLETED
    tree = await runs.tree(whole.root_id)
    assert [name for _, name, _ in tree] == [
        "run",
        "whole",
        "turn 1",
        "system_spawn_subtask",
        "part",
        "part",
        "part",
    ]
    dies_at = 0
    while True:
        dies_at += 1 if runs.is_sqlite else 4
        runs.asked.clear()
        root_id = await runs.begin(SPAWNING, reuse=False)
        if not await runs.die(root_id, dies_at=dies_at, is_written=is_written):
            break
        before = runs.asked.copy()
        stored = [task for task in await runs.flow(root_id) if task.status is Status.COMPLETED]
        answers = sum(task.name in {"turn 1", "whole"} for task in stored)
        answers += sum(
            task.name == "part" and bool(task.params and "prompt" in task.params) for task in stored
        )
        outcome = await runs.go_on(root_id)

        assert outcome.status is Status.COMPLETED, dies_at
        assert await runs.tree(root_id) == tree, dies_at
        assert sum((runs.asked - before).values()) == 4 - answers, dies_at
    assert dies_at > 8
