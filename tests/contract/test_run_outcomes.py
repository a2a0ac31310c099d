"""How runs that did not complete are told, on every store: the reason, and what to do about it."""

import asyncio
from typing import Any

import pytest

from tests.runs_bench import RunsBench
from weft.app.app import App
from weft.app.programs import RunOptions, load_program
from weft.app.run_records import next_step_hint
from weft.evaluator.effects import ScriptOutcome
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.ids import TaskId
from weft.language.reading import Surface
from weft.runs.outcome import RunOutcome, outcome_of
from weft.runs.program import StoredProgram, StoredText
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.operations import CancelTasks
from weft.tasks.record import Status, Task, evolve
from weft.testing.in_memory_effects import InMemoryEffects

ASK = '(deftask ask (x) :instructions "{{x}}")\n'


def answer(prompt: str) -> str:
    if prompt == "bad":
        raise TaskFailed(TaskFailure("llm_error", "it is down"))
    return prompt


@pytest.fixture
def runs(store: TaskStore, monkeypatch: pytest.MonkeyPatch) -> RunsBench:
    monkeypatch.setattr("weft.runs.cancellation.LOOK_SECONDS", 0.01)
    return RunsBench(store, answer)


class Endless(InMemoryEffects):
    """Never answers."""

    async def call_model(self, step: Any, call: Any, account: Any = None) -> Any:
        await asyncio.Event().wait()


async def first_step(app: App, root_id: TaskId) -> TaskId:
    """Wait until the first step of the run is stored, and return its id."""
    async for event in app.watch(root_id):
        if event.task_id != root_id:
            return event.task_id
    raise AssertionError("the run has ended")


async def advised(runs: RunsBench, outcome: RunOutcome) -> str:
    return next_step_hint(await runs.store.get(outcome.root_id, owner=EVERYONE), outcome)


@pytest.mark.parametrize("is_whole", [True, False], ids=["run", "step"])
async def test_what_was_cancelled_is_told_so_and_is_not_said_to_go_on(
    runs: RunsBench, is_whole: bool
) -> None:
    runs.effects = Endless
    root_id = await runs.begin(f'{ASK} (ask "x")')
    app = runs.app()
    try:
        waiting = asyncio.create_task(app.wait(root_id))
        step_id = await first_step(app, root_id)
        await app.cancel(root_id if is_whole else step_id, reason="enough")
        await waiting
    finally:
        await app.stop(grace_seconds=0)
    outcome = await outcome_of(runs.store, await runs.store.get(root_id, owner=EVERYONE))

    assert outcome.status is (Status.CANCELLED if is_whole else Status.FAILED)
    assert outcome.result is not None
    error = outcome.result.notes["error"]
    assert (error["reason"], error["message"]) == ("execution_halted", "enough")
    told = await advised(runs, outcome)
    assert "cancelled" in told
    assert f"weft tasks copy --reuse {root_id}" in told
    assert "--resume" not in told


@pytest.mark.parametrize(
    ("text", "limits", "expected"),
    [
        ('(ask "bad")', {}, "retry the failed steps with: weft run --resume ID"),
        ('(begin (ask "1") (+ 1 (ask "2")))', {}, "failed permanently: fix the program"),
        ("(loop 100 (list 1))", {"steps": 10}, "weft run --resume ID --max-steps N"),
        ("(with-budget (:steps 10) (loop 100 (list 1)))", {}, "failed permanently: fix the program"),
    ],
)
async def test_what_is_advised_can_help(
    runs: RunsBench, text: str, limits: dict[str, float], expected: str
) -> None:
    program = load_program(ASK + text, RunOptions(limits=limits))
    root_id = await runs.app().begin_program(program, {}, name="run")
    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.FAILED
    assert expected.replace("ID", root_id) in await advised(runs, outcome)


async def test_a_script_that_failed_is_not_taken_for_a_step_that_was_cancelled(runs: RunsBench) -> None:
    runs.effects = lambda: InMemoryEffects(scripts=[ScriptOutcome("", "no such file", 1)])

    outcome = await runs.run('(script :argv ("cat" "x"))')

    assert outcome.status is Status.FAILED
    assert "retry the failed steps with" in await advised(runs, outcome)


async def resumed_with(runs: RunsBench, text: str, before: dict[str, Any], after: dict[str, Any]) -> Task:
    """Return a failed run that was resumed with other inputs, which nobody should do."""
    outcome = await runs.run(text, **before)
    assert outcome.status is Status.FAILED
    await runs.app().update(outcome.root_id, {"inputs": after})
    await runs.go_on(outcome.root_id)
    return await runs.store.get(outcome.root_id, owner=EVERYONE)


async def test_a_replay_that_differs_is_told_with_the_place_of_the_call(runs: RunsBench) -> None:
    text = f'{ASK}(list (ask "a")\n  (ask word)\n  (ask "bad"))'

    root = await resumed_with(runs, text, {"word": "b"}, {"word": "c"})

    assert (root.error or "").startswith(
        "replay-differs: step 2 at <text>:3:3: replay mismatch: recorded 'ask'"
    )


async def test_steps_that_are_left_out_are_told_with_the_place_where_the_program_was(runs: RunsBench) -> None:
    text = f'{ASK}(begin\n  (ask "one")\n  (if flag (begin (ask "two") (ask "bad")) nil))'

    root = await resumed_with(runs, text, {"flag": True}, {"flag": False})

    assert (root.error or "").startswith("steps-left: step 2 (ask): recorded before")
    assert "1 at <text>:3:3" in (root.error or "")


@pytest.mark.parametrize("is_old", [False, True])
async def test_the_code_of_a_replay_that_differs_is_stored_and_read_from_old_records(
    runs: RunsBench, is_old: bool
) -> None:
    root = await resumed_with(runs, f'{ASK}(list (ask word) (ask "bad"))', {"word": "b"}, {"word": "c"})
    assert (root.params or {})["failure"]["code"] == "replay-differs"
    if is_old:  # as earlier versions stored it
        params = {name: value for name, value in (root.params or {}).items() if name != "failure"}
        root = evolve(root, params=params)

    outcome = await outcome_of(runs.store, root)

    assert outcome.code == "replay-differs"
    assert "failed on replay, so it cannot be resumed" in next_step_hint(root, outcome)


async def test_a_step_can_be_cancelled_also_after_the_store_could_not_be_read(
    runs: RunsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.effects = Endless
    root_id = await runs.begin(f'{ASK} (ask "x")')
    app = runs.app()
    read, has_failed = runs.store.get_many, asyncio.Event()

    async def failing_once(*arguments: Any, **named: Any) -> Any:
        if not has_failed.is_set():
            has_failed.set()
            raise RuntimeError("nobody has thought of this one")
        return await read(*arguments, **named)

    try:
        waiting = asyncio.create_task(app.wait(root_id))
        step_id = await first_step(app, root_id)
        monkeypatch.setattr(runs.store, "get_many", failing_once)
        await has_failed.wait()
        await app.store.operate(CancelTasks(task_id=step_id, reason="enough", now=app.now()), owner=EVERYONE)
        await waiting
    finally:
        await app.stop(grace_seconds=0)

    assert (await runs.store.get(root_id, owner=EVERYONE)).status is Status.FAILED


@pytest.mark.parametrize(
    ("text", "surface", "error"),
    [
        (
            "<task>\n<description>x</task>",
            "xml",
            {
                "type": "XML_PARSE_ERROR",
                "message": "mismatched tag; <description> of line 2 is still open here",
                "location": "main:2:17",
            },
        ),
        (
            "<task><descripton>x</descripton></task>",
            "xml",
            {"type": "TASK_FAILURE", "reason": "xml_validation_failure"},
        ),
        ("(task :instruction 1)", "sexp", {"type": "VALIDATION_ERROR", "path": "main:1:7"}),
    ],
    ids=["malformed", "invalid", "expression"],
)
async def test_a_stored_program_that_cannot_be_read_says_so_in_its_task_error(
    runs: RunsBench, text: str, surface: Surface, error: dict[str, Any]
) -> None:
    program = StoredProgram(StoredText("main", text, surface))
    root_id = await runs.app().begin_program(program, {}, name="run")
    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.FAILED
    assert outcome.result is not None
    told = outcome.result.notes["error"]
    assert {**told, **error} == told
    if error.get("reason"):
        assert told["details"]["violations"][0].startswith("main:1:7: unknown-element")
