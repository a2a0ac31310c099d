"""Scripts in durable programs, on every store: how they end is in the record, and is known on replay."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.runs_bench import RunsBench
from weft.app.app import App
from weft.evaluator.effects import ScriptOutcome, ScriptRun
from weft.secrets.registry import register
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status, Task
from weft.testing.in_memory_effects import InMemoryEffects

LOOP = """(director-evaluator-loop :instructions "q" :max-iterations 3
  :director (task :instructions "write {{current_iteration}}")
  :script (script :argv ("check"))
  :evaluator (task :output "json"
    :instructions "judge {{script_exit_code}} {{script_output}} {{script_errors}}"))"""

CAUGHT = """(deftask ask (x) :instructions "{{x}}")
(define one (try (script :argv ("check")) (catch e (get-in e (list "notes" "error" "reason")))))
(define two (script :argv ("check")))
(ask two)"""


class Checks:
    """A script that ends as it is told, then well; models that judge it, or say what they are asked."""

    def __init__(self, *endings: ScriptOutcome, by_round: Mapping[str, ScriptOutcome]) -> None:
        self._endings = list(endings)
        self._by_round = by_round
        self.ran = 0
        self.asked: Counter[str] = Counter()

    def effects(self) -> InMemoryEffects:
        return InMemoryEffects(self._answer, scripts=self._run)

    def _run(self, run: ScriptRun) -> ScriptOutcome:
        self.ran += 1
        ending = self._by_round.get(run.stdin or "")
        if ending is not None:
            return ending
        return self._endings.pop(0) if self._endings else ScriptOutcome("fine", "", 0)

    def _answer(self, call: Any) -> Any:
        self.asked[call.prompt] += 1
        is_good = call.prompt.startswith("judge 0")
        return {"success": is_good, "feedback": ""} if call.prompt.startswith("judge") else call.prompt


BAD = ScriptOutcome("2 of 3", "one failed\n", 3)


def checked(runs: RunsBench, *endings: ScriptOutcome, by_round: Mapping[str, ScriptOutcome] = {}) -> Checks:
    checks = Checks(*endings, by_round=by_round)
    runs.effects = checks.effects
    return checks


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


async def scripts_of(runs: RunsBench, root_id: Any) -> list[Task]:
    return [task for task in await runs.flow(root_id) if task.name == "check"]


async def test_a_script_that_ends_badly_in_a_loop_is_failed_and_the_loop_goes_on(runs: RunsBench) -> None:
    checked(runs, BAD, ScriptOutcome("slow", "", -9, is_timed_out=True))

    outcome = await runs.run(LOOP)

    assert outcome.status is Status.COMPLETED
    assert outcome.result is not None
    assert outcome.result.notes["terminated_by"] == "success"
    found = [(task.status.value, task.error, task.result) for task in await scripts_of(runs, outcome.root_id)]
    fine = {"stdout": "fine", "stderr": "", "exit_code": 0, "is_timed_out": False}
    assert found == [
        ("failed", "the script exited with code 3: one failed", None),
        ("failed", "the script took too long", None),
        ("completed", None, fine),
    ]


async def test_whatever_write_a_loop_dies_at_its_scripts_are_known_as_they_ended(runs: RunsBench) -> None:
    by_round = {"write 1": BAD}
    checked(runs, by_round=by_round)
    expected = await runs.run(LOOP, reuse=False)
    tree, dies_at = await runs.tree(expected.root_id), 0

    while True:
        dies_at += 1
        checks = checked(runs, by_round=by_round)
        root_id = await runs.begin(LOOP, reuse=False)
        if not await runs.die(root_id, dies_at=dies_at):
            break
        ended = [task for task in await scripts_of(runs, root_id) if task.completed_at is not None]
        before = checks.ran
        outcome = await runs.go_on(root_id)
        assert outcome.result == expected.result, dies_at
        assert await runs.tree(root_id) == tree, dies_at
        assert checks.ran - before == 2 - len(ended), dies_at
        assert checks.asked["judge 3 2 of 3 one failed\n"] >= 1, dies_at
    assert dies_at > 6, "the series ended before the run did"


async def test_a_script_that_ended_the_run_is_run_again_and_no_other(runs: RunsBench) -> None:
    checks = checked(runs, BAD, BAD)

    failed = await runs.run(CAUGHT)

    assert failed.status is Status.FAILED
    assert failed.result is not None
    assert failed.result.content == "2 of 3"
    error = failed.result.notes["error"]
    assert (error["reason"], error["details"]["script_exit_code"]) == ("execution_halted", 3)
    assert [task.status.value for task in await scripts_of(runs, failed.root_id)] == ["failed", "failed"]

    mended = await runs.go_on(failed.root_id)

    assert mended.status is Status.COMPLETED
    assert checks.ran == 3, "the one that was caught is known"
    assert checks.asked == {"fine": 1}
    assert [task.status.value for task in await scripts_of(runs, mended.root_id)] == ["failed", "completed"]


async def test_a_fork_takes_over_how_a_script_ended(runs: RunsBench) -> None:
    checks = checked(runs, BAD)
    old = await runs.run(CAUGHT)
    assert (old.status, checks.ran) == (Status.COMPLETED, 2)

    fork = await runs.app().fork(old.root_id, "3")
    outcome = await runs.go_on(fork.root.id)

    assert (outcome.status, checks.ran) == (Status.COMPLETED, 2)
    assert [task.status.value for task in await scripts_of(runs, fork.root.id)] == ["failed", "completed"]


async def test_what_a_failed_script_wrote_is_told_to_the_program_as_it_is_stored(runs: RunsBench) -> None:
    register("sk-a-secret-of-length", "HIDDEN")
    checks = checked(runs, ScriptOutcome("sk-a-secret-of-length", "", 3))

    outcome = await runs.run(LOOP)

    assert outcome.status is Status.COMPLETED
    (judged,) = [prompt for prompt in checks.asked if prompt.startswith("judge 3")]
    assert "sk-a-secret-of-length" not in judged
    app: App = runs.app()
    stored = str([await app.get(task.id) for task in await runs.flow(outcome.root_id)])
    assert "sk-a-secret-of-length" not in stored
    assert (await runs.store.get(outcome.root_id, owner=EVERYONE)).status is Status.COMPLETED
