"""How runs end, on every store: nothing of them stays open, and what finished is never paid for again."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from msgspec import structs

from tests.engine_bench import QUICK
from tests.invariants import check_flow, check_over, check_store
from tests.runs_bench import MortalStore, RunsBench
from weft.app.app import App
from weft.app.programs import RunOptions, load_program
from weft.effects.local import LocalEffects
from weft.evaluator import joins
from weft.ids import TaskId
from weft.runs import journal
from weft.runs.outcome import RunOutcome, outcome_of
from weft.runs.program import as_params
from weft.store.errors import StoreError
from weft.store.protocol import EVERYONE, EventFilter, TaskStore
from weft.tasks.events import EventType
from weft.tasks.flow import Flow
from weft.tasks.record import JsonObject, Status, Task
from weft.tasks.steps import ENDED_WITH_RUN, ENDED_WITH_STEP
from weft.testing.in_memory_effects import InMemoryEffects

ASK = '(deftask ask (x) :instructions "{{x}}")'
WHOLE = '(template whole (x) (list (ask "inside") (ask x)))'
SLOW = f'{ASK} {WHOLE} (list (ask "first") (whole "slow") (ask "last"))'
PERSON = '(define (person what) (get (system:request_user_input :question what) "answer"))'


class Hanging(InMemoryEffects):
    """Answers what is slow only when a test says so."""

    def __init__(self, runs: RunsBench) -> None:
        super().__init__(lambda call: f"answer to {call.prompt}")
        self._runs = runs
        self.may_answer = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.is_stubborn = False

    async def call_model(self, step: Any, call: Any, account: Any = None) -> Any:
        self._runs.asked[call.prompt] += 1
        while call.prompt in ("slow", "slower") and not self.may_answer.is_set():
            self.is_asked.set()
            try:
                await self.may_answer.wait()
            except asyncio.CancelledError:
                if not self.is_stubborn or call.prompt != "slow":
                    raise
        return await super().call_model(step, call)


@pytest.fixture
def runs(store: TaskStore, monkeypatch: pytest.MonkeyPatch) -> RunsBench:
    monkeypatch.setattr(journal, "SHOWN_SECONDS", 0.0)
    monkeypatch.setattr("weft.runs.questions.QUIET_SECONDS", 0.01)
    return RunsBench(store)


@pytest.fixture
def effects(runs: RunsBench) -> Hanging:
    made = Hanging(runs)
    runs.effects = lambda: made
    return made


def program_task(text: str = SLOW, **params: Any) -> dict[str, Any]:
    params = {**as_params(load_program(text, RunOptions(reuse=False)).stored), **params}
    return {"name": "run", "schemas": {"method": "template"}, "params": params}


async def run_flow(runs: RunsBench, document: Any, app: App | None = None) -> Flow:
    """Run a flow to its end, and return it."""
    app = app or runs.app()
    try:
        root_id = await app.begin(document)
        await asyncio.wait_for(app.wait(root_id), 30)
    finally:
        await app.stop(grace_seconds=0)
    return await runs.flow(root_id)


def statuses(flow: Flow) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for task, _ in flow.walk():
        found.setdefault(str(task.inputs.get("x", task.name)), []).append(task.status.value)
    return found


async def test_a_run_that_times_out_leaves_no_step_open_and_is_retried_without_repeating_a_call(
    runs: RunsBench, effects: Hanging
) -> None:
    flow = await run_flow(runs, program_task(timeout_seconds=0.5))
    await check_over(runs.store, flow.root.id)

    assert flow.root.error == "timed out after 0.5 s"
    assert statuses(flow) == {
        "run": ["failed"],
        "first": ["completed"],
        "slow": ["cancelled", "cancelled"],  # the template that was called, and what it asks
        "inside": ["completed"],
    }
    assert {task.error for task in flow if task.status is Status.CANCELLED} == {ENDED_WITH_RUN}

    effects.may_answer.set()
    app = runs.app()
    await app.retry(flow.root.id)
    flow = await run_flow(runs, flow.root.id, app)
    await check_over(runs.store, flow.root.id)

    assert flow.root.status is Status.COMPLETED
    assert runs.asked == {"first": 1, "inside": 1, "slow": 2, "last": 1}


async def test_a_run_that_timed_out_is_told_so_and_can_be_resumed(runs: RunsBench, effects: Hanging) -> None:
    flow = await run_flow(runs, program_task(timeout_seconds=0.5))
    outcome = await outcome_of(runs.store, flow.root)
    effects.may_answer.set()
    resumed = await runs.go_on(flow.root.id)

    assert (outcome.status, outcome.is_step_cancelled) == (Status.FAILED, False)
    assert error_of(outcome) == "timed out after 0.5 s"
    assert resumed.status is Status.COMPLETED
    assert runs.asked["first"] == runs.asked["inside"] == 1


def error_of(outcome: RunOutcome) -> str:
    assert outcome.result is not None
    return str(outcome.result.notes["error"]["message"])


async def test_a_failed_attempt_that_is_retried_ends_no_step_and_the_next_one_takes_them_over(
    runs: RunsBench, effects: Hanging
) -> None:
    retried = program_task(timeout_seconds=0.5, retry={"attempts": 2, "delay": 0})
    flow = await run_flow(runs, retried)
    await check_over(runs.store, flow.root.id)

    assert statuses(flow)["slow"] == ["cancelled", "cancelled"]
    assert [kind for kind, _ in await events_of(runs.store, step_named(flow, "slow"))] == [
        EventType.TASK_STARTED,
        EventType.TASK_STARTED,
        EventType.TASK_CANCELLED,
    ]
    assert runs.asked == {"first": 1, "inside": 1, "slow": 2}


def step_named(flow: Flow, prompt: str) -> Task:
    return [task for task in flow if task.inputs.get("x") == prompt][-1]


async def events_of(store: TaskStore, task: Task) -> list[tuple[EventType, JsonObject]]:
    found = await store.events(EventFilter(tree=task.task_tree_id, task=task.id), owner=EVERYONE)
    return [(event.type, event.facts) for event in found]


async def test_a_run_that_is_lost_too_often_leaves_no_step_open(runs: RunsBench, effects: Hanging) -> None:
    root_id = await runs.begin(SLOW)
    for _ in range(2):
        mortal = MortalStore(runs.store)
        living = asyncio.create_task(runs.live(root_id, mortal))
        await asyncio.wait_for(effects.is_asked.wait(), 30)
        await asyncio.wait_for(open_step(runs, root_id, "slow"), 30)
        effects.is_asked.clear()
        mortal.die()
        await living
        await check_flow(runs.store, root_id)
        assert statuses(await runs.flow(root_id))["slow"] == ["in_progress", "in_progress"]
    runs.limits = structs.replace(QUICK, max_losses=2)
    flow = await run_flow(runs, root_id)
    await check_over(runs.store, root_id)

    assert "2 lost attempts" in str(flow.root.error)
    assert statuses(flow)["slow"] == ["cancelled", "cancelled"]
    effects.may_answer.set()
    assert (await runs.go_on(root_id)).status is Status.COMPLETED
    assert runs.asked["first"] == runs.asked["inside"] == 1


async def open_step(runs: RunsBench, root_id: TaskId, prompt: str) -> Task:
    while True:
        for task in await runs.flow(root_id):
            is_asked = (task.params or {}).get("prompt", {}).get("prompt") == prompt
            if is_asked and task.status is Status.IN_PROGRESS:
                return task
        await asyncio.sleep(0.01)


async def test_the_end_of_one_run_leaves_the_others_of_its_flow_alone(
    runs: RunsBench, effects: Hanging
) -> None:
    hurried = {**program_task(timeout_seconds=0.5), "name": "hurried"}
    patient = {**program_task(), "name": "patient", "parent_id": "all"}
    flow = [{"name": "all"}, {**hurried, "parent_id": "all"}, patient]
    app = runs.app()
    root_id = await app.begin(flow)
    running = asyncio.create_task(app.wait(root_id))
    async for event in app.watch(root_id):
        if event.type is EventType.TASK_FAILED:
            break
    found = await runs.flow(root_id)
    await check_flow(runs.store, root_id)
    by_run = {
        found[children[0]].parent_id: [found[one].status for one in children]
        for parent, children in found.children.items()
        if parent != root_id and found[parent].name in ("hurried", "patient")
    }
    status_of = {found[parent].name: each for parent, each in by_run.items() if parent is not None}
    assert Status.IN_PROGRESS not in status_of["hurried"]
    assert Status.IN_PROGRESS in status_of["patient"]

    await app.cancel(root_id, reason="enough")
    await asyncio.wait_for(running, 30)
    await app.stop(grace_seconds=0)
    await check_over(runs.store, root_id)


async def test_a_question_that_is_open_when_its_run_times_out_ends_with_it_and_is_asked_again(
    runs: RunsBench,
) -> None:
    may_end = asyncio.Event()

    class SlowScripts(LocalEffects):
        async def run_script(self, step: Any, run: Any) -> Any:
            await may_end.wait()
            return await super().run_script(step, run)

    runs.effects = SlowScripts
    text = f'{PERSON} (parallel (person "Who?") (script :argv ("true")))'
    flow = await run_flow(runs, program_task(text, timeout_seconds=0.5))
    await check_over(runs.store, flow.root.id)
    assert not await runs.app().questions(flow.root.id)

    may_end.set()
    # The short time is for the first attempt: a slow machine needs longer for a script and its records.
    await runs.app().update(flow.root.id, {"params": {**(flow.root.params or {}), "timeout_seconds": 60}})
    assert (await runs.go_on(flow.root.id)).status is Status.PENDING
    await check_over(runs.store, flow.root.id)  # a question that is open is a reason
    [question] = await runs.app().questions(flow.root.id)
    await runs.app().answer(question.id, "me")
    resumed = await runs.go_on(flow.root.id)

    assert resumed.result is not None
    assert resumed.result.value[0] == "me"
    await check_over(runs.store, flow.root.id)


async def test_a_question_that_is_open_when_its_run_is_cancelled_ends_with_it(runs: RunsBench) -> None:
    runs.with_handler(lambda payload: "quick")
    resting = await runs.run(f'{PERSON} (person "Who?")')
    await check_over(runs.store, resting.root_id)
    await runs.app().cancel(resting.root_id)

    await check_over(runs.store, resting.root_id)
    assert not await runs.app().questions(resting.root_id)


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])
async def test_whatever_write_a_process_dies_at_around_the_end_nothing_stays_open(
    runs: RunsBench, effects: Hanging, is_written: bool
) -> None:
    dies_at, is_dead = 0, True
    while is_dead:
        dies_at += 2 if runs.is_sqlite else 3
        runs.asked.clear()
        root_id = await runs.app().begin(program_task(timeout_seconds=0.1))
        mortal = MortalStore(runs.store, dies_at=dies_at, is_written=is_written)
        is_dead = await lived(runs, root_id, mortal)
        await check_flow(runs.store, root_id)
        flow = await run_flow(runs, root_id)

        await check_over(runs.store, root_id)
        assert flow.root.error == "timed out after 0.1 s", dies_at
        assert runs.asked["first"] <= 2  # not stored yet when the process died
    assert dies_at > 4, "the series ended before the run did"
    await check_store(runs.store)


async def lived(runs: RunsBench, root_id: TaskId, mortal: MortalStore) -> bool:
    """Run a flow until the store is gone; whether it came to that."""
    with suppress(StoreError):
        await run_flow(runs, root_id, runs.app(mortal.as_store))
    await runs.store.recover(dead=await runs.store.workers())
    return mortal.is_dead


async def test_what_is_left_open_below_a_step_ends_with_that_step(
    runs: RunsBench, effects: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An effect that ignores its cancellation is abandoned; the program does not wait for it."""
    monkeypatch.setattr(joins, "CLEAN_UP_SECONDS", 0.01)
    effects.is_stubborn = True
    late = '(try (with-timeout 0.3 (whole "slow")) (catch e "late"))'
    root_id = await runs.begin(f'{ASK} {WHOLE} (list {late} (ask "slower"))')
    app = runs.app()
    await app.begin(root_id)
    running = asyncio.create_task(app.wait(root_id))
    async with asyncio.timeout(30):
        async for event in app.watch(root_id):
            if event.facts.get("error") == ENDED_WITH_STEP:
                break
    await check_flow(runs.store, root_id)
    ended = (await runs.flow(root_id))[event.task_id]
    assert (ended.status, ended.inputs) == (Status.CANCELLED, {"x": "slow"})

    effects.may_answer.set()
    await asyncio.wait_for(running, 30)
    await app.stop(grace_seconds=0)
    await check_over(runs.store, root_id)
    left = await runs.flow(root_id)
    assert (left.root.status, left[ended.id].status) == (Status.COMPLETED, Status.CANCELLED)
