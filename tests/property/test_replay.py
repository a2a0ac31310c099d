"""Random programs that are killed at random writes and go on: they end as they began, and pay once."""

import asyncio
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.random_programs import ProgramWriter
from tests.runs_bench import MortalStore, RunsBench
from weft.app.wiring import open_store
from weft.config.settings import Settings
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, ScriptOutcome, ScriptRun, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.ids import TaskId
from weft.runs.outcome import outcome_of
from weft.store.errors import StoreBusy
from weft.store.models import Run, StepChange, StoredStep
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status
from weft.tasks.steps import step_fields
from weft.testing.in_memory_effects import InMemoryEffects

SEEDS = (*range(14), 68341536)  # the last: a composite is ended with the one around it
MOMENTS = (0.0, 0.001, 0.005, 0.02)
"""How long an answer or a write takes: no test waits for any of them."""


class Life:
    """The world in which a program is evaluated several times: it answers differently every time."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.number = 0
        self.asked: list[tuple[str, str]] = []
        """The keys and prompts of this life."""

    async def pass_time(self) -> None:
        """Take a moment, or none."""
        moment = self.chance.choice((None, *MOMENTS))
        if moment is not None:
            await asyncio.sleep(moment)

    def text(self, name: str) -> str:
        """Return a text that never occurs twice."""
        return f"{name} in {self.number}: {self.chance.randrange(10**6)}"


class Model(InMemoryEffects):
    """Answers as the second word of a prompt says."""

    def __init__(self, life: Life) -> None:
        super().__init__()
        self._life = life

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        life = self._life
        name, mood = (*call.prompt.split(), "q")[:2]
        life.asked.append((step.key, call.prompt))
        await (asyncio.sleep(0.3) if mood == "hang" else life.pass_time())
        if mood == "slow":
            await asyncio.sleep(0.05)
        if mood == "fails" or (mood == "moody" and life.number % 2 == 0):
            raise TaskFailed(TaskFailure("llm_error", life.text(name)))
        usage = {"usage": {"input_tokens": 5, "output_tokens": 5}}
        return TaskResult(life.text(name), "COMPLETE", notes=usage)

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        self._life.asked.append((step.key, run.argv[0]))
        await self._life.pass_time()
        return ScriptOutcome(self._life.text(run.argv[0]), "", int(run.argv[1] == "bad"))


class SlowStore(MortalStore):
    """A store that takes its time to write steps, or is busy, and dies."""

    def __init__(self, store: TaskStore, life: Life, *, dies_at: int) -> None:
        super().__init__(store, dies_at=dies_at, is_written=life.chance.random() < 0.5)
        self._life = life

    def __getattr__(self, method: str) -> Any:
        call = super().__getattr__(method)
        if method != "write_steps":
            return call

        async def write(run: Run, changes: list[StepChange]) -> Any:
            if self._life.chance.random() < 0.05:
                raise StoreBusy("another process writes")
            await self._life.pass_time()
            refused = await call(run, changes)
            await self._life.pass_time()
            return refused

        return write


def paid_keys(steps: list[StoredStep]) -> set[str]:
    """Return the keys of calls whose responses are stored."""
    return {
        step.key
        for step in steps
        if step.task.status is Status.COMPLETED and step_fields(step.task).kind in ("atomic", "script")
    }


def told_prompts(steps: list[StoredStep]) -> list[str]:
    """Return the prompts that follow each part of the program and contain its value."""
    prompts = [(step.task.params or {}).get("prompt", {}).get("prompt", "") for step in steps]
    return sorted(prompt for prompt in prompts if prompt.startswith("then"))


async def require_whole(store: TaskStore, root_id: TaskId, steps: list[StoredStep]) -> None:
    """No record is without the one it is below, and of each step one at most has an outcome."""
    # A composite that was ended with the step around it is a record, but not among the steps of a replay.
    ids = {task.id for task in await store.flow_of(root_id, owner=EVERYONE)}
    assert all(step.task.parent_id in ids for step in steps)
    ended = Counter(step.key for step in steps if step.task.status in (Status.COMPLETED, Status.FAILED))
    assert not {key for key, count in ended.items() if count > 1 and "!" not in key}


async def live_and_die(runs: RunsBench, root_id: TaskId, life: Life, paid: set[str], dies_at: int) -> None:
    """One life: nothing is asked for that is paid, and nothing is left at work."""
    life.asked.clear()
    others = asyncio.all_tasks()
    mortal = SlowStore(runs.store, life, dies_at=dies_at)
    await asyncio.wait_for(runs.live(root_id, mortal), 30)
    assert not {key for key, _ in life.asked} & paid, "asked again"
    left = {task for task in asyncio.all_tasks() - others if task is not asyncio.current_task()}
    if left:
        await asyncio.wait(left, timeout=5)
    assert not [task for task in left if not task.done()]


async def outlive(seed: int, directory: Path) -> None:
    """Let a random program die a few times, and end."""
    life = Life(seed)
    text = ProgramWriter(life.chance).program()
    store = await open_store(Settings(db=str(directory / f"{seed}.db")))
    try:
        runs = RunsBench(store)
        runs.effects = lambda: Model(life)
        root_id = await runs.begin(text, reuse=False)
        paid: set[str] = set()
        answers: dict[str, Any] = {}
        deaths = [life.chance.randrange(3, 40) for _ in range(life.chance.randrange(1, 5))]
        for life.number, dies_at in enumerate([*deaths, 0]):
            await live_and_die(runs, root_id, life, paid, dies_at)
            steps = list(await store.steps_of(root_id))
            await require_whole(store, root_id, steps)
            paid = paid_keys(steps)
            found = {step.key: step.task.result for step in steps if step.key in paid}
            assert answers.items() <= found.items(), "an answer was changed"
            answers = found
        outcome = await outcome_of(store, await store.get(root_id, owner=EVERYONE))
        assert outcome.status is Status.COMPLETED, outcome.result
        assert outcome.result is not None
        assert outcome.result.value[1:] == told_prompts(steps)
        assert Status.IN_PROGRESS not in {step.task.status for step in steps}
    except BaseException as error:
        error.add_note(f"seed {seed}:\n{text}")
        raise
    finally:
        await store.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_a_program_that_dies_goes_on_the_way_it_went(seed: int, tmp_path: Path) -> None:
    await outlive(seed, tmp_path)


@pytest.mark.slow
async def test_many_programs_that_die_go_on_the_way_they_went(tmp_path: Path) -> None:
    first = Random().randrange(10**9)
    for seed in range(first, first + 300):
        await outlive(seed, tmp_path)
