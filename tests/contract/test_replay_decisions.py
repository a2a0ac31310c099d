"""What time decided once, a replay does not decide again: which branch failed, which limit was reached.

Every program here had been refused, had hung, had been paid for again or had gone another way when it was
evaluated a second time.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from tests.contract.test_replay import ASK, Acting
from tests.replay_stage import Stage, Told, lives_of, shown
from tests.runs_bench import RunsBench
from weft.effects.local import LocalEffects
from weft.evaluator import machine
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, ScriptOutcome, ScriptRun, Step
from weft.evaluator.results import TaskResult
from weft.ids import TaskId, new_task_id
from weft.llm.payload import HandlerPayload, ModelReply, Usage
from weft.llm.protocol import Features
from weft.runs.errors import RunLost
from weft.runs.journal import Journal
from weft.runs.step_writer import StepWriter
from weft.store.models import Run, StepChange
from weft.store.protocol import EVERYONE, TaskStore
from weft.tasks.record import Status, Task
from weft.testing import models
from weft.testing.scripted_model import ScriptedModel

PARTIAL = '(get-in e (list "notes" "error" "details" "partialResults"))'


@pytest.fixture
def runs(store: TaskStore) -> RunsBench:
    return RunsBench(store)


FORMS = {
    "an error beside a composite that waits": (
        '(try (parallel (sequential (ask "hang")) (error "mine")) (catch e (message e)))',
        "then mine 0",
    ),
    "a failure in a template call": (
        '(try (parallel (ask "hang") (one "b fails after hang")) (catch e (message e)))',
        "then b failed 0",
    ),
    "a failure beside a template call": (
        '(try (parallel (one "hang") (one "b fails after hang")) (catch e (message e)))',
        "then b failed 0",
    ),
    "a failure in a map of template calls": (
        '(try (map (lambda (x) (one x)) (list "hang" "b fails after hang")) (catch e (message e)))',
        "then b failed 0",
    ),
    "a failure after many steps": (
        """(try (parallel (ask "hang") (begin (loop 15 (ask "x")) (ask "b fails")))
                (catch e (message e)))""",
        "then b failed 0",
    ),
    "partial results": (
        f"""(try (sequential :parallel true (ask "a fails behind q") (ask "q"))
                 (catch e (length {PARTIAL})))""",
        "then 1 0",
    ),
    "a time limit with composites below it": (
        """(try (with-timeout 0.05 (sequential (one "a") (sequential (one "hang")))) (catch e "late"))""",
        "then late 0",
    ),
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_failure_that_ended_others_is_told_again(
    runs: RunsBench, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "MAX_RESOLVED_IN_A_ROW", 10)
    stage = Stage(runs)
    runs.effects = lambda: Told(stage)
    text, then = FORMS[form]

    await lives_of(stage, shown(text))

    assert runs.asked[then] == 1


async def test_a_failure_that_is_stored_while_others_are_stopped_counts_in_every_life(
    runs: RunsBench,
) -> None:
    stage = Stage(runs)
    note, is_failing = stage.note, asyncio.Event()

    async def hold(tasks: list[Task]) -> None:
        """Let `b` be stored not before A fails: then A's failure is stored while `b` stops the branches."""
        await note(tasks)
        if any((task.result or {}).get("content") == "b" for task in tasks):
            await is_failing.wait()
            for _ in range(5):
                await asyncio.sleep(0)

    class Failing(Told):
        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            if call.prompt == "A fails behind b":
                await stage.stored["!b"].wait()
                is_failing.set()
            return await super().call_model(step, call, account)

    stage.mortal = Acting(runs.store, hold, is_after=True)
    runs.effects = lambda: Failing(stage)
    first = '(parallel (ask "A fails behind b") (ask "hang"))'

    await lives_of(
        stage, shown(f'(try (parallel {first} (begin (ask "b") (error "pure"))) (catch e (message e)))')
    )


BUDGETS = {
    "what is set behind the call that used a budget up": (
        "(define x 0)\n",
        '(try (with-budget (:tokens 1000) (begin (ask "big") (set! x 1) (ask "c"))) (catch e "spent"))',
        "then spent 1",
    ),
    "limits behind the call that used a budget up": (
        """(define x (try (with-budget (:tokens 1000) (begin (ask "big") (with-timeout 9 1) (ask "c")))
                          (catch e "spent")))""",
        '(try (with-timeout 0.05 (ask "hang")) (catch e "late"))',
        "then late spent",
    ),
    "code that a time limit ended": (
        "(define x 0)",
        '(try (with-timeout 0.05 (loop 100000000 (set! x (+ x 1)))) (catch e "late"))',
        None,
    ),
    "code with steps that a time limit ended": (
        "(define x 0)",
        """(try (with-timeout 0.05 (begin (ask "a") (set! x 1) (loop 100000000 (set! x (+ x 1)))))
                (catch e "late"))""",
        None,
    ),
}


@pytest.mark.parametrize("form", BUDGETS)
async def test_a_limit_ends_code_where_it_did(runs: RunsBench, form: str) -> None:
    stage = Stage(runs)
    runs.effects = lambda: Told(stage)
    before, text, then = BUDGETS[form]

    await lives_of(stage, before + shown(text, "x"))

    assert then is None or runs.asked[then] == 1


@pytest.mark.parametrize(
    "behind", ['(one "b")', '(sequential (begin (set! x 1) (ask "b")))'], ids=["template", "sequential"]
)
async def test_a_composite_that_had_not_begun_when_a_limit_was_reached_is_not_begun(
    runs: RunsBench, behind: str
) -> None:
    stage = Stage(runs)
    note = stage.note

    async def take_time(tasks: list[Task]) -> None:
        await note(tasks)
        if any((task.result or {}).get("content") == "slow" for task in tasks):
            await asyncio.sleep(0.35)  # the limit passes

    stage.mortal = Acting(runs.store, take_time, is_after=True)
    runs.effects = lambda: Told(stage)
    late = f'(try (with-timeout 0.3 (begin (ask "slow") {behind})) (catch e "late"))'

    await lives_of(
        stage, "(define x 0)" + shown(f'(try (with-budget (:calls 1) {late}) (catch e "spent"))', "x")
    )

    assert runs.asked["then late 0"] == 1


async def test_no_time_passes_for_a_limit_while_known_answers_are_given(
    runs: RunsBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(runs)
    loop = asyncio.get_running_loop()
    time, ahead = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: time() + ahead)

    class Busy(Told):
        async def around(self, step: Step, body: Callable[[], Any]) -> TaskResult:
            nonlocal ahead
            if stage.life == 1:
                ahead += 3.0  # what other runs of the process take
            return await super().around(step, body)

    runs.effects = lambda: Busy(stage)

    await lives_of(stage, shown('(try (with-timeout 8 (begin (loop 3 (one "a")) 1)) (catch e "late"))'))

    assert ahead == 9.0
    assert runs.asked["then 1 0"] == 1


async def test_branches_that_a_budget_let_pass_are_let_pass_again(runs: RunsBench) -> None:
    stage = Stage(runs)

    def reply(payload: HandlerPayload) -> ModelReply:
        prompt = str(payload.messages[-1].content)
        runs.asked[prompt] += 1
        stage.asked[prompt].set()
        if prompt == "end" and not stage.life:
            stage.mortal.die()
        usage = Usage(input_tokens=10, output_tokens=5000 if prompt == "b" else 10)
        return ModelReply(model="test:scripted", text=prompt, usage=usage)

    class Slow(ScriptedModel):
        """`b` takes more than was set aside for it, and is there when all others were asked for."""

        async def request(self, payload: HandlerPayload, on_text: Any = None) -> ModelReply:
            answer = await super().request(payload, on_text)
            if payload.messages[-1].content == "b":
                await stage.asked["a2"].wait()
            return answer

    features = Features(context_window=128_000, max_output_tokens=1000)
    runs.effects = lambda: LocalEffects(models=models(Slow(reply, features=features)))
    both = '(parallel (ask "b") (list (ask "a") (ask "a2")))'

    await lives_of(stage, shown(f"(try (with-budget (:tokens 4500) (length {both})) (catch e (message e)))"))

    assert runs.asked["then 2 0"] == 1


async def test_calls_that_are_passed_over_count(runs: RunsBench) -> None:
    stage = Stage(runs)

    class Dying(Told):
        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            if call.prompt == "middle" and not stage.life:
                stage.mortal.die()
            return await super().call_model(step, call, account)

    runs.effects = lambda: Dying(stage)
    others = '(parallel (ask "a fails behind x3") (list (ask "x1") (ask "x2") (ask "x3")))'
    calls = f'(begin (try {others} (catch e 1)) (ask "middle") (ask "y"))'
    text = f'{ASK}(try (with-budget (:calls 5) {calls}) (catch e "spent"))'
    root_id = await runs.begin(text, reuse=False)
    assert await asyncio.wait_for(runs.live(root_id, stage.mortal), 20)
    stage.life = 1

    outcome = await asyncio.wait_for(runs.go_on(root_id), 20)

    assert outcome.result is not None
    assert outcome.result.value == "spent"
    assert runs.asked["y"] == 0


async def test_a_composite_that_somebody_cancels_takes_one_way(runs: RunsBench) -> None:
    stage = Stage(runs)

    class Cancelling(Told):
        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            if call.prompt == "second":
                await stage.stored["two"].wait()
                found = [one.task for one in await runs.store.steps_of(root_id) if one.task.name == "two"]
                await runs.app().cancel(found[0].id, reason="enough")
            return await super().call_model(step, call, account)

    runs.effects = lambda: Cancelling(stage)
    two = '(template two () (begin (ask "first") (try (ask "second") (catch e "none")) 7))'
    text = f"{ASK}{two}{shown('(try (two) (catch e 0))')}"
    root_id = await runs.begin(text, reuse=False)
    assert await asyncio.wait_for(runs.live(root_id, stage.mortal), 20)
    asked, stage.life = runs.asked.copy(), 1

    outcome = await asyncio.wait_for(runs.go_on(root_id), 20)

    assert outcome.status is Status.COMPLETED, outcome.result
    assert runs.asked - asked == {"end": 1}


@pytest.mark.parametrize("form", ["parallel", "sequential :parallel true"])
async def test_what_was_under_way_beside_a_failure_does_not_stay_so(runs: RunsBench, form: str) -> None:
    stage = Stage(runs)
    note = stage.note

    async def die_of_failure(tasks: list[Task]) -> None:
        await note(tasks)
        if any(task.status is Status.FAILED for task in tasks):
            stage.mortal.die()

    class Shown(Told):
        async def run_script(self, step: Step, run: ScriptRun) -> ScriptOutcome:
            await stage.stored["hang"].wait()
            return await super().run_script(step, run)

    stage.mortal = Acting(runs.store, die_of_failure, is_after=True)
    runs.effects = lambda: Shown(stage)
    text = f'{ASK}(try ({form} (ask "hang") (script :argv ("bad"))) (catch e "caught"))'
    root_id = await runs.begin(text, reuse=False)
    assert await asyncio.wait_for(runs.live(root_id, stage.mortal), 20)
    assert Status.IN_PROGRESS in {step.task.status for step in await runs.store.steps_of(root_id)}
    stage.life = 1

    outcome = await asyncio.wait_for(runs.go_on(root_id), 20)

    assert outcome.status is Status.COMPLETED, outcome.result
    assert Status.IN_PROGRESS not in {step.task.status for step in await runs.store.steps_of(root_id)}


@pytest.mark.parametrize(
    "known", ['(ask "a fails")', '(with-budget (:calls 0) (ask "b"))'], ids=["failures", "limits"]
)
async def test_the_event_loop_gets_its_turns_while_failures_are_told_again(
    runs: RunsBench, known: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(runs)
    monkeypatch.setattr(machine, "MAX_RESOLVED_IN_A_ROW", 10)
    turns, counted = 0, list[int]()

    def turn() -> None:
        nonlocal turns
        turns += 1
        if not counted:
            asyncio.get_running_loop().call_soon(turn)

    class Counting(Told):
        async def around(self, step: Step, body: Callable[[], Any]) -> TaskResult:
            result = await super().around(step, body)
            if stage.life:
                turn()
            return result

        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            if call.prompt == "end" and stage.life:
                counted.append(turns)
            return await super().call_model(step, call, account)

    runs.effects = lambda: Counting(stage)

    await lives_of(stage, f'(one "first")\n(loop 100 (try {known} (catch e 1)))\n(ask "end")')

    assert counted[0] >= 10, "a hundred steps, and a turn after every ten"


async def test_who_waits_for_a_writer_that_is_stopped_is_told(store: TaskStore, runs: RunsBench) -> None:
    root_id = await runs.begin(f'{ASK}(ask "a")', reuse=False)
    writer = StepWriter(store, Run(root_id, 1, root_id, None))
    writing = asyncio.ensure_future(writer.write([]))
    await asyncio.sleep(0)  # the write was asked for, its task has not begun

    writer.stop()

    for waiting in (writing, asyncio.ensure_future(writer.write([]))):
        with pytest.raises(RunLost):
            await asyncio.wait_for(waiting, 20)


class HeldSteps:
    """A store whose writes of steps wait until it is back."""

    def __init__(self, inner: TaskStore) -> None:
        self._inner = inner
        self.is_back = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId] | None:
        await self.is_back.wait()
        return await self._inner.write_steps(run, changes)


async def test_a_response_is_stored_when_the_store_is_back_although_the_evaluation_was_cancelled(
    store: TaskStore, runs: RunsBench
) -> None:
    root_id = await runs.begin(f'{ASK}(ask "a")', reuse=False)
    await store.add_worker("w", lease_seconds=3600)
    claim = await store.start(root_id, worker="w", now=store.clock.now(), owner=EVERYONE)
    task = await store.get(root_id, owner=EVERYONE)
    held = HeldSteps(store)
    journal = await Journal.open(
        cast(TaskStore, held), task, claim.attempt, clock=store.clock, new_id=new_task_id
    )
    asked = journal.begin_part("0", "digest", "ask", "task")
    showing = asyncio.ensure_future(journal.show())
    await asyncio.sleep(0)  # that it is in progress is on its way to the store
    answering = asyncio.ensure_future(journal.complete(asked, {"content": "paid for"}))
    await asyncio.sleep(0)

    journal.stop()

    for waiting in (showing, answering):
        with pytest.raises(RunLost):
            await asyncio.wait_for(waiting, 20)
    held.is_back.set()
    async with asyncio.timeout(20):
        while [step.task.result for step in await store.steps_of(root_id)] != [{"content": "paid for"}]:
            pass


class LateSteps:
    """A store that is away for steps until another attempt was claimed."""

    def __init__(self, inner: TaskStore) -> None:
        self._inner = inner
        self._is_claimed_again = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def advance(self, endings: Any, wanted: Any) -> Any:
        held, outlook = cast(Any, await self._inner.advance(endings, wanted))
        if any(claimed.claim.attempt > 1 for claimed in outlook.claimed):
            self._is_claimed_again.set()
        return held, outlook

    async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId] | None:
        if not self._is_claimed_again.is_set():
            await self._inner.recover(dead=await self._inner.workers())
        await self._is_claimed_again.wait()
        return await self._inner.write_steps(run, changes)


async def test_a_response_that_the_store_refuses_because_of_the_next_attempt_is_not_requested_again(
    store: TaskStore, runs: RunsBench
) -> None:
    root_id = await runs.begin(f'{ASK}(list (ask "a") (ask "b"))', reuse=False)

    async with asyncio.timeout(30):
        outcome = await runs.go_on(root_id, cast(TaskStore, LateSteps(store)))

    assert outcome.status is Status.COMPLETED
    assert runs.asked == {"a": 1, "b": 1}
    names = [(name, status) for _, name, status in await runs.tree(root_id)]
    assert names == [("run", "completed"), ("ask", "completed"), ("ask", "completed")]
