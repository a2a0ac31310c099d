"""A stage for runs that die and go on: a model that does what its prompts say, and what was stored when."""

import asyncio
from collections import defaultdict

from tests.contract.test_replay import ASK, MESSAGE, Acting
from tests.runs_bench import RunsBench
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, ScriptOutcome, ScriptRun, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.ids import TaskId
from weft.tasks.record import Status, Task
from weft.testing.in_memory_effects import InMemoryEffects

ONE = "(template one (x) (ask x))\n"


class Stage:
    """What has happened so far: prompts that were asked, answers that were stored, in which life."""

    def __init__(self, runs: RunsBench) -> None:
        self.runs = runs
        self.life = 0
        self.asked: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self.stored: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """By prompt, when the record of a call is stored in whatever state; with `!` before it, its end."""
        self.mortal = Acting(runs.store, self.note, is_after=True)

    async def note(self, tasks: list[Task]) -> None:
        for task in tasks:
            prompt = (task.params or {}).get("prompt", {}).get("prompt") or task.name
            self.stored[prompt].set()
            if task.status.is_terminal:
                self.stored[f"!{prompt}"].set()


class Told(InMemoryEffects):
    """A model that waits and fails as its prompt says; at `end` the process dies, once.

    `hang` is never answered in the first life, and fails at once in later ones: nobody should ask then.
    `b fails after X` waits until X was asked for, `b fails behind X` until the answer to X is stored.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(lambda call: call.prompt)
        self._stage = stage

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        prompt, stage = call.prompt, self._stage
        stage.runs.asked[prompt] += 1
        stage.asked[prompt].set()
        if prompt == "end" and not stage.life:
            stage.mortal.die()
        if prompt == "hang":
            if stage.life:
                raise TaskFailed(TaskFailure("llm_error", f"{prompt}: the provider is down"))
            await asyncio.Event().wait()
        if " after " in prompt:
            await stage.asked[prompt.partition(" after ")[2]].wait()
        if " behind " in prompt:
            await stage.stored["!" + prompt.partition(" behind ")[2]].wait()
        if " fails" in prompt and not prompt.startswith("then"):
            raise TaskFailed(TaskFailure("llm_error", f"{prompt.partition(' ')[0]} failed"))
        usage = {"usage": {"tokens": 5000}} if prompt == "big" else {}
        return TaskResult(prompt, "COMPLETE", notes=usage)

    async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
        stage = self._stage
        stage.runs.asked[run.argv[0]] += 1
        return ScriptOutcome("", "no such file", 1)


async def lives_of(stage: Stage, text: str) -> TaskId:
    """Live once, until the process dies at `end`, and twice more: nothing but `end` is asked for again."""
    runs = stage.runs
    root_id = await runs.begin(f"{ASK}{MESSAGE}{ONE}{text}", reuse=False)
    assert await asyncio.wait_for(runs.live(root_id, stage.mortal), 20)
    asked = runs.asked.copy()
    for life in (1, 2):
        stage.life = life
        outcome = await asyncio.wait_for(runs.go_on(root_id), 20)
        assert outcome.status is Status.COMPLETED, outcome.result
    assert runs.asked - asked == {"end": 1}
    return root_id


def shown(form: str, more: str = "0") -> str:
    """Return a program whose prompt depends on the value of the form."""
    return f'(define v {form})\n(list (ask (format "then {{}} {{}}" v {more})) (ask "end"))'
