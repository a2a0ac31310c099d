"""Going on with a run takes the way that it took before: whatever failed, was late, or came too late."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.runs_bench import MortalStore, RunsBench
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, ScriptOutcome, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import ResourceExhaustion, TaskFailure, TaskResult
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.store.errors import StoreBusy
from weft.store.models import Run, StepChange
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status, Task
from weft.tasks.steps import step_fields
from weft.testing.in_memory_effects import InMemoryEffects

ASK = '(deftask ask (x) :instructions "{{x}}")\n'
MESSAGE = '(define (message e) (get-in e (list "notes" "error" "message")))'


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


class Moody(InMemoryEffects):
    """A model that does what it is told to, once; at `end` the process dies."""

    def __init__(self, runs: RunsBench, mortal: MortalStore) -> None:
        super().__init__(lambda call: call.prompt)
        self._runs = runs
        self._mortal = mortal

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        prompt = call.prompt
        self._runs.asked[prompt] += 1
        if prompt.startswith("soon"):
            await asyncio.sleep(0.02)
        if prompt.startswith("hang"):
            await asyncio.Event().wait()
        if prompt.startswith("stubborn"):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise TaskFailed(TaskFailure("llm_error", f"{prompt} was disturbed")) from None
        if prompt.endswith("fails"):
            raise TaskFailed(TaskFailure("llm_error", f"{prompt} as it was told"))
        if prompt == "end" and not self._mortal.is_dead:
            self._mortal.die()
        return await super().call_model(step, call)


BRANCHES = {
    "a failure while others are further": """
        (try (parallel (ask "soon it fails") (list (ask "b1") (ask "b2") (ask "b3") (ask "b4") (ask "b5")))
             (catch e "caught"))""",
    "a failure before others": """
        (try (parallel (list (ask "a1") (ask "soon a2") (ask "soon a3")) (ask "it fails"))
             (catch e "caught"))""",
    "two failures": """
        (try (parallel (ask "soon a fails") (ask "b fails")) (catch e (message e)))""",
    "a failure of what is called off": """
        (try (parallel (ask "stubborn") (ask "b fails")) (catch e (message e)))""",
    "a failure inside a failure": """
        (try (map (lambda (n) (parallel (ask (format "hang {}" n)) (ask (format "soon {} fails" n))))
                  (range 3))
             (catch e (message e)))""",
}
LIMITS = {
    "a time limit": '(try (with-timeout 0.05 (ask "hang")) (catch e "late"))',
    "a time limit after steps": """
        (try (with-timeout 0.1 (list (ask "a") (ask "b") (ask "hang"))) (catch e "late"))""",
    "a time limit of branches": """
        (try (with-timeout 0.1 (parallel (ask "a") (list (ask "b") (ask "hang 1")) (ask "hang 2")))
             (catch e "late"))""",
    "a time limit of a task": '(try (sequential :timeout 0.1 (ask "a") (ask "hang")) (catch e "late"))',
    "a budget of calls": """
        (try (with-budget (:calls 2) (list (ask "a") (ask "b") (ask "c"))) (catch e "spent"))""",
    "a budget of calls in branches": """
        (try (with-budget (:calls 4)
               (map (lambda (n) (list (ask (format "a{}" n)) (ask (format "b{}" n)))) (range 3)))
             (catch e "spent"))""",
    "a limit inside a limit": """
        (try (with-timeout 30 (with-budget (:calls 3)
               (begin (try (with-timeout 0.05 (ask "hang")) (catch e (ask "instead"))) (ask "b") (ask "c"))))
             (catch e "spent"))""",
    "what a limit leaves behind": """
        (begin (define seen 0)
               (try (with-timeout 0.1 (begin (ask "a") (set! seen 1) (ask "hang"))) (catch e "late"))
               (format "seen {}" seen))""",
}


@pytest.mark.parametrize("form", [*BRANCHES, *LIMITS])
async def test_what_was_decided_once_is_not_decided_otherwise(runs: RunsBench, form: str) -> None:
    mortal = MortalStore(runs.store)
    runs.effects = lambda: Moody(runs, mortal)
    shown = (
        f'(define v {BRANCHES.get(form) or LIMITS[form]})\n(list (ask (format "then {{}}" v)) (ask "end"))'
    )
    text = f"{ASK}{MESSAGE}\n{shown}"
    root_id = await runs.begin(text, reuse=False)
    assert await runs.live(root_id, mortal)
    asked = runs.asked.copy()

    outcome = await asyncio.wait_for(runs.go_on(root_id), 20)

    assert outcome.status is Status.COMPLETED, outcome.result
    assert runs.asked - asked == {"end": 1}
    keys = [step.key for step in await runs.store.steps_of(root_id)]
    assert len(keys) == len(set(keys)), "a step has two records"


class Acting(MortalStore):
    """A store that does something before or after it writes steps."""

    def __init__(self, store: TaskStore, act: Callable[[list[Task]], Any], *, is_after: bool = False) -> None:
        super().__init__(store)
        self._act = act
        self._is_after = is_after

    def __getattr__(self, method: str) -> Any:
        call = super().__getattr__(method)
        if method != "write_steps":
            return call

        async def write(run: Run, changes: list[StepChange]) -> Any:
            tasks = [change.task for change in changes]
            if not self._is_after:
                await self._act(tasks)
            refused = await call(run, changes)
            if self._is_after:
                await self._act(tasks)
            return refused

        return write


async def test_an_answer_that_is_stored_counts_though_a_time_limit_passes_meanwhile(runs: RunsBench) -> None:
    async def take_time(tasks: list[Task]) -> None:
        if any(task.result and task.result.get("content") == "slow" for task in tasks):
            await asyncio.sleep(0.2)

    mortal = Acting(runs.store, take_time, is_after=True)
    runs.effects = lambda: Moody(runs, mortal)
    text = f"""{ASK}(define v (try (with-timeout 0.1 (ask "slow")) (catch e "late")))
    (list (ask (format "then {{}}" v)) (ask "end"))"""
    root_id = await runs.begin(text, reuse=False)
    assert await runs.live(root_id, mortal)
    asked = runs.asked.copy()

    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.COMPLETED, outcome.result
    assert runs.asked - asked == {"end": 1}
    assert runs.asked["then slow"] == 1


async def test_a_store_that_is_busy_for_a_moment_loses_no_answer(runs: RunsBench) -> None:
    left = 2

    async def be_busy(tasks: list[Task]) -> None:
        nonlocal left
        if left and any(task.status is Status.COMPLETED for task in tasks):
            left -= 1
            raise StoreBusy("another process writes")

    root_id = await runs.begin(f'{ASK}(list (ask "x") (ask "y"))', reuse=False)
    outcome = await runs.go_on(root_id, Acting(runs.store, be_busy).as_store)

    assert outcome.status is Status.COMPLETED, outcome.result
    assert runs.asked == {"x": 1, "y": 1}


async def test_what_is_under_way_when_a_process_stops_is_not_called_off(runs: RunsBench) -> None:
    both = asyncio.Event()
    begun: list[str] = []

    class Waiting(InMemoryEffects):
        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            begun.append(call.prompt)
            if len(begun) == 2:
                both.set()
            if len(begun) <= 2:
                try:
                    await asyncio.Event().wait()
                finally:
                    await asyncio.sleep(0.1 if call.prompt == "B" else 0)  # what is slow to end
            return await super().call_model(step, call)

    runs.effects = lambda: Waiting(lambda call: call.prompt)
    root_id = await runs.begin(f'{ASK}(parallel (ask "A") (ask "B"))', reuse=False)
    app = runs.app()
    waiting = asyncio.ensure_future(app.wait(root_id))
    await both.wait()
    await app.stop(grace_seconds=0)
    await waiting
    assert not [task for task in await runs.flow(root_id) if task.status is Status.CANCELLED]

    outcome = await asyncio.wait_for(runs.go_on(root_id), 20)

    assert outcome.status is Status.COMPLETED
    assert await runs.tree(root_id) == [(0, "run", "completed"), *[(1, "ask", "completed")] * 2]


async def test_a_branch_that_was_called_off_when_the_run_failed_is_performed_again(runs: RunsBench) -> None:
    is_down = True

    class Once(InMemoryEffects):
        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            if is_down and call.prompt == "A":
                await asyncio.Event().wait()
            if is_down and call.prompt == "B":
                await asyncio.sleep(0.02)
                raise TaskFailed(TaskFailure("llm_error", "no"))
            return await super().call_model(step, call)

    runs.effects = lambda: Once(lambda call: call.prompt)
    root_id = await runs.begin(f'{ASK}(parallel (ask "A") (ask "B"))', reuse=False)
    assert (await runs.go_on(root_id)).status is Status.FAILED
    is_down = False
    for dies_at in range(1, 6):
        if not await runs.die(root_id, dies_at=dies_at):
            break

    assert (await asyncio.wait_for(runs.go_on(root_id), 20)).status is Status.COMPLETED


async def test_only_the_step_that_ended_the_run_is_tried_again_though_others_said_the_same(
    runs: RunsBench,
) -> None:
    is_down = True

    def answer(prompt: str) -> str:
        if is_down and prompt in ("one", "two"):
            raise TaskFailed(ResourceExhaustion("turns", "the task is not done after 20 turns"))
        return f"to {prompt}"

    runs.answer = answer
    text = f'{ASK}(define a (try (ask "one") (catch e "none")))\n(ask a)\n(ask "two")'
    root_id = await runs.begin(text, reuse=False)
    assert (await runs.go_on(root_id)).status is Status.FAILED
    is_down = False

    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.COMPLETED, outcome.result
    assert runs.asked == {"one": 1, "none": 1, "two": 2}


async def test_a_call_that_took_more_than_its_budget_and_was_accepted_stays_accepted(runs: RunsBench) -> None:
    mortal = MortalStore(runs.store)

    def answer(payload: HandlerPayload) -> Any:
        prompt = payload.messages[-1].content
        if prompt == "end" and not mortal.is_dead:
            mortal.die()
        usage = Usage(input_tokens=10, output_tokens=5000)
        return ModelReply(model="test:scripted", text=f"to {prompt}", usage=usage)

    runs.with_handler(answer)
    limited = '(try (with-budget (:tokens 1000) (ask "x")) (catch e "budget"))'
    root_id = await runs.begin(f'{ASK}(define v {limited})\n(list (ask v) (ask "end"))', reuse=False)
    assert await runs.live(root_id, mortal)
    asked = runs.asked.copy()

    outcome = await runs.go_on(root_id)

    assert outcome.status is Status.COMPLETED, outcome.result
    assert runs.asked - asked == {"end": 1}


async def test_what_a_failed_call_took_is_counted_when_the_run_goes_on(runs: RunsBench) -> None:
    mortal = MortalStore(runs.store)

    def answer(payload: HandlerPayload) -> Any:
        prompt = payload.messages[-1].content
        if prompt == "middle" and not mortal.is_dead:
            mortal.die()
        if prompt == "bad":
            usage = Usage(input_tokens=10, output_tokens=985)
            return ModelReply(model="test:scripted", text="x", finish_reason="filtered", usage=usage)
        usage = Usage(input_tokens=10, output_tokens=10)
        return ModelReply(model="test:scripted", text=f"to {prompt}", usage=usage)

    runs.with_handler(answer)
    text = f"""{ASK}
    (define (tried) (begin (try (ask "bad") (catch e 1)) (with-timeout 60 (ask "middle")) (ask "good")))
    (try (with-budget (:tokens 1000) (tried)) (catch e "budget"))"""
    root_id = await runs.begin(text, reuse=False)
    await runs.live(root_id, mortal)

    outcome = await runs.go_on(root_id)

    assert outcome.result is not None
    assert outcome.result.value == "budget"
    assert runs.asked["good"] == 0


async def test_a_step_is_never_stored_without_what_is_around_it(runs: RunsBench) -> None:
    mortal = MortalStore(runs.store)

    class Dying(InMemoryEffects):
        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            if call.prompt == "late" and not mortal.is_dead:
                await asyncio.sleep(0.04)
                mortal.die()
            return await super().call_model(step, call)

    runs.effects = lambda: Dying(lambda call: call.prompt)
    text = f"""{ASK}(template inner (a) (+ a 1))
    (template outer (a) (list (inner a) (ask "late")))
    (parallel (outer 1) (ask "x"))"""
    root_id = await runs.begin(text, reuse=False)
    assert await runs.live(root_id, mortal)
    steps = await runs.store.steps_of(root_id)
    assert {step.task.parent_id for step in steps} <= {root_id, *(step.task.id for step in steps)}

    assert (await runs.go_on(root_id)).status is Status.COMPLETED
    assert [task.has_children for task in await runs.flow(root_id) if task.name == "outer"] == [True]


async def test_a_script_that_failed_is_run_again(runs: RunsBench) -> None:
    codes = [1, 0]

    class Scripts(InMemoryEffects):
        async def run_script(self, step: Step, run: Any) -> ScriptOutcome:
            return ScriptOutcome("out", "no such file", codes.pop(0))

    runs.effects = lambda: Scripts(lambda call: call.prompt)
    root_id = await runs.begin('(sequential (task :instructions "a") (script :argv ("x")))', reuse=False)

    failed = await runs.go_on(root_id)

    assert failed.status is Status.FAILED
    assert failed.result is not None
    error = failed.result.notes["error"]
    assert error["reason"] == "subtask_failure"
    assert error["details"]["subtaskError"]["details"]["script_exit_code"] == 1
    assert (await runs.go_on(root_id)).status is Status.COMPLETED
    assert codes == []


async def test_an_answer_that_does_not_fit_is_asked_for_again_and_no_other_run_gets_it(
    runs: RunsBench,
) -> None:
    answers = ["no", "no json", "[1]", "[2]"]
    runs.with_handler(lambda _: answers.pop(0))
    text = '(task :instructions "a list" :output "json" :schema "array")'

    failed = await runs.run(text)

    assert failed.result is not None
    assert failed.result.notes["error"]["reason"] == "output_format_failure"
    assert failed.result.content == "no json"
    again = await runs.go_on(failed.root_id)
    assert again.result is not None
    assert again.result.value == [1]
    assert step_fields(await _first_step(runs, failed.root_id)).unfit
    other = await runs.run(text)
    assert other.result is not None
    assert other.result.value == [2]


async def _first_step(runs: RunsBench, root_id: Any) -> Task:
    return await runs.store.get((await runs.store.steps_of(root_id))[0].task.id, owner=EVERYONE)
