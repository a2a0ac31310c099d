"""Programs that the steps of a run start: what they are told, on every store."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.engine_bench import QUICK
from tests.runs_bench import MortalStore, RunsBench
from weft.app.app import App
from weft.app.programs import load_program
from weft.config.settings import Settings
from weft.effects.local import LocalEffects
from weft.evaluator.effects import ModelCall, ScriptOutcome, ScriptRun, Step
from weft.evaluator.results import TaskResult
from weft.store.protocol import TaskStore
from weft.tasks.record import Status
from weft.testing.in_memory_effects import InMemoryEffects

SCRIPT = '(script :argv ("sh" "-c" "echo $WEFT_TASK_ID $WEFT_ATTEMPT | tee -a {log}"))'


class Dying(LocalEffects):
    """Runs scripts; the store is gone once one has ended."""

    def __init__(self, mortal: MortalStore) -> None:
        super().__init__()
        self._mortal = mortal

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        outcome = await super().run_script(step, run)
        self._mortal.die()
        return outcome


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


async def test_a_script_is_told_the_record_of_its_step_and_again_the_same_when_the_run_goes_on(
    runs: RunsBench, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    mortal = MortalStore(runs.store)
    runs.effects = lambda: Dying(mortal)
    root_id = await runs.begin(SCRIPT.format(log=log))
    assert await runs.live(root_id, mortal)

    runs.effects = LocalEffects
    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.COMPLETED
    _, step = await runs.flow(root_id)
    assert log.read_text() == f"{step.id} 1\n{step.id} 2\n"


class Editing(InMemoryEffects):
    """Counts how many edit at the same time, and notes what they were told."""

    def __init__(self) -> None:
        super().__init__(lambda call: call.prompt)
        self.now = self.most = 0
        self.records: list[Any] = []

    async def call_model(self, step: Step, call: ModelCall, account: Any = None) -> TaskResult:
        self.records.append(step.record)
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return await super().call_model(step, call)


async def test_aider_takes_a_slot_and_is_told_the_record_of_its_step(runs: RunsBench) -> None:
    editing = Editing()
    app = App(
        runs.store,
        settings=Settings(db="unused"),
        limits=msgspec.structs.replace(QUICK, concurrency=1),
        new_effects=lambda _: editing,
    )
    program = load_program(
        '(deftask edit (x) :subtype "aider_automatic" :instructions "{{x}}") (map edit (list 1 2 3))'
    )
    root_id = await app.begin_program(program, {}, name="run")
    try:
        await app.wait(root_id)
    finally:
        await app.stop(grace_seconds=0)

    assert editing.most == 1
    _, *steps = await runs.flow(root_id)
    assert {record.task_id for record in editing.records} == {step.id for step in steps}
