"""Runs that go on, on every store: what may be another for the rest of them."""

import asyncio
from typing import Any

import pytest

from tests.runs_bench import MortalStore, RunsBench
from weft.app.app import App
from weft.app.programs import RunOptions, arun, load_program
from weft.app.run_records import CannotChange, ResumeOptions
from weft.effects.local import LocalEffects
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.ids import TaskId
from weft.runs.program import program_of
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status
from weft.testing import models

ASK = '(deftask ask (x) :instructions "{{x}}")\n'


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    bench = RunsBench(store)
    bench.with_handler(lambda payload: payload.messages[-1].content)
    return bench


async def limited(runs: RunsBench, **limits: float) -> TaskId:
    program = load_program(f'{ASK} (map ask (list "1" "2" "3"))', RunOptions(limits=limits))
    return await runs.app().begin_program(program, {}, name="run")


async def go_on(runs: RunsBench, root_id: TaskId, changes: ResumeOptions) -> Status:
    app = runs.app()
    try:
        await app.resume(root_id, changes)
        await app.wait(root_id)
    finally:
        await app.stop(grace_seconds=0)
    return (await runs.store.get(root_id, owner=EVERYONE)).status


async def test_a_run_whose_budget_was_used_up_goes_on_with_another_which_is_stored(runs: RunsBench) -> None:
    root_id = await limited(runs, tokens=10, seconds=600)
    assert (await runs.go_on(root_id)).status is Status.FAILED

    assert await go_on(runs, root_id, ResumeOptions(limits={"tokens": 100_000})) is Status.COMPLETED

    program = program_of(await runs.store.get(root_id, owner=EVERYONE))
    assert program.limits == {"tokens": 100_000, "seconds": 600}
    assert program.is_reusing


async def test_a_run_is_running_elsewhere_while_a_live_worker_holds_it(runs: RunsBench) -> None:
    app, store = runs.app(), runs.store
    root_id = await limited(runs)
    await store.add_worker("other-machine", lease_seconds=3600)
    claim = await store.start(root_id, worker="other-machine", now=app.now(), owner=EVERYONE)

    assert await app.is_running_elsewhere(await app.get(root_id))
    await store.release(claim, now=app.now())
    assert not await app.is_running_elsewhere(await app.get(root_id))


async def test_an_app_that_ran_a_program_runs_tasks_of_any_executor(runs: RunsBench) -> None:
    app = runs.app()
    await arun("(+ 1 2)", app=app)
    try:
        summary = await app.run([{"name": "a", "schemas": {"method": "noop"}, "inputs": {"x": 1}}])
    finally:
        await app.stop(grace_seconds=0)

    assert summary.counts == {"completed": 1}


async def test_a_run_whose_process_died_goes_on_with_another_budget(runs: RunsBench) -> None:
    mortal = MortalStore(runs.store)

    def dying(payload: Any) -> str:
        mortal.die()
        return "x"

    runs.with_handler(dying)
    root_id = await runs.begin(f'{ASK} (ask "1")')
    assert await runs.live(root_id, mortal)
    runs.with_handler(lambda payload: "x")

    assert await go_on(runs, root_id, ResumeOptions(limits={"tokens": 1})) is Status.FAILED
    assert await go_on(runs, root_id, ResumeOptions(limits={"tokens": 10_000})) is Status.COMPLETED


async def test_a_run_that_another_process_evaluates_cannot_be_changed(runs: RunsBench) -> None:
    root_id = await runs.begin(f'{ASK} (ask "1")')
    asked, told = asyncio.Event(), asyncio.Event()

    class Waiting(LocalEffects):
        async def call_model_journaled(self, *arguments: Any) -> TaskResult:
            asked.set()
            await told.wait()
            return await super().call_model_journaled(*arguments)

    runs.effects = lambda: Waiting(models=models(lambda payload: "x"))
    other = asyncio.create_task(runs.go_on(root_id))
    await asked.wait()
    try:
        with pytest.raises(CannotChange, match="is running in another process"):
            await go_on(runs, root_id, ResumeOptions(is_fresh=True))
    finally:
        told.set()
    assert (await other).status is Status.COMPLETED


async def test_a_run_that_goes_on_without_reuse_asks_what_others_have_answered(runs: RunsBench) -> None:
    await runs.run(f'{ASK} (ask "same")')
    root_id = await runs.begin(f'{ASK} (ask "same")')

    assert await go_on(runs, root_id, ResumeOptions(is_fresh=True)) is Status.COMPLETED
    assert runs.asked["same"] == 2


async def test_a_run_that_is_over_has_nothing_left_to_change(runs: RunsBench) -> None:
    outcome = await runs.run(f'{ASK} (ask "x")')

    with pytest.raises(CannotChange, match="is completed: it cannot be changed"):
        await go_on(runs, outcome.root_id, ResumeOptions(is_fresh=True))


@pytest.mark.parametrize(
    "asked", [{"model": "a:b"}, {"name": "x"}, {"libraries": ["lib"]}, {"inputs": {"a": 1}}]
)
async def test_what_a_run_keeps_as_it_was_is_refused_when_it_goes_on(
    runs: RunsBench, asked: dict[str, Any]
) -> None:
    root_id = await runs.begin(f'{ASK} (ask "x")')

    with pytest.raises(CannotChange, match=next(iter(asked))):
        await arun(app=runs.app(), resume=root_id, **asked)
    assert not runs.asked


class Beaten(App):
    """Somebody else retries the run just before."""

    async def retry(self, task_id: TaskId) -> tuple[TaskId, ...]:
        await super().retry(task_id)
        return await super().retry(task_id)


async def test_two_who_have_a_failed_run_go_on_at_once_both_have_it(runs: RunsBench) -> None:
    is_down = True

    def answer(payload: Any) -> str:
        if is_down:
            raise TaskFailed(TaskFailure("llm_error", "down"))
        return "up"

    runs.with_handler(answer)
    outcome = await runs.run(f'{ASK} (ask "x")')
    assert outcome.status is Status.FAILED
    is_down = False
    own = runs.app()
    app = Beaten(runs.store, settings=own.settings, new_effects=lambda _: runs.effects())

    try:
        assert (await arun(app=app, resume=outcome.root_id)).value == "up"
    finally:
        await app.stop(grace_seconds=0)


async def test_inputs_may_have_any_name(runs: RunsBench) -> None:
    app = runs.app()
    try:
        result = await arun(
            f"{ASK} (ask (list name model resume inputs more))",
            app=app,
            inputs={"name": "n", "model": "m", "resume": "r", "inputs": "i"},
            more="x",
        )
    finally:
        await app.stop(grace_seconds=0)

    assert result.value == '["n", "m", "r", "i", "x"]'
    with pytest.raises(TypeError, match="given twice: a"):
        await arun("a", app=app, inputs={"a": 1}, a=2)
    with pytest.raises(TypeError, match="a program or resume=ID"):
        await arun(app=app)
