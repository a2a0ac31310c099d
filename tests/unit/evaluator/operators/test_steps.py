"""Steps: their keys, what runs concurrently, and what happens when they are stopped."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.programs import evaluate, failure_of
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ModelCall, Step
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure, TaskResult
from weft.testing.in_memory_effects import InMemoryEffects

NESTED = """
(deftask leaf (x) :instructions "leaf {{x}}")
(sequential
  (task :instructions "{{a}} {{b}}" :inputs ((a (leaf 1)) (b (leaf 2))))
  (sequential :parallel true (leaf 3) (leaf 4))
  (map leaf (list 5 6)))
"""


def keys(effects: InMemoryEffects) -> dict[str, str]:
    """Return the prompt or the type of every step, by its key."""
    return {
        step.key: step.request.prompt if isinstance(step.request, ModelCall) else type(step.request).__name__
        for step in effects.steps
    }


async def test_keys_say_where_in_the_evaluation_a_step_is() -> None:
    effects = InMemoryEffects(lambda call: call.prompt)
    await evaluate(NESTED, effects)

    assert keys(effects) == {
        "1": "Composite",
        "1/1/1/1": "leaf 1",
        "1/1/2/1": "leaf 2",
        "1/2": "leaf 1 leaf 2",
        "1/3": "Composite",
        "1/3/1/1/1": "leaf 3",
        "1/3/1/2/1": "leaf 4",
        "1/4/1/1": "leaf 5",
        "1/4/2/1": "leaf 6",
    }


@pytest.mark.parametrize("seed", range(5))
async def test_keys_do_not_depend_on_what_ends_first(seed: int) -> None:
    turns = iter(range(seed, 1_000, 3))

    async def sleep(_: float) -> None:
        for _turn in range(next(turns) % 7):
            await asyncio.sleep(0)

    plain = InMemoryEffects(lambda call: call.prompt)
    shuffled = InMemoryEffects(lambda call: call.prompt, latency_seconds=1, sleep=sleep)
    await evaluate(NESTED, plain)
    await evaluate(NESTED, shuffled)

    assert keys(shuffled) == keys(plain)


async def test_nested_inputs_run_concurrently() -> None:
    effects = gate(2)
    program = '(task :instructions "x" :inputs ((a (task :instructions "a")) (b (task :instructions "b"))))'
    await asyncio.wait_for(evaluate(program, effects), 5)

    assert effects.most_concurrent == 2


async def test_inner_tasks_of_a_reduce_run_concurrently() -> None:
    effects = gate(3)
    program = """(reduce-task :inputs ((a 1) (b 2) (c 3)) :inner (task :instructions "i")
                   :reduction (identity current_result))"""
    await asyncio.wait_for(evaluate(program, effects), 5)

    assert effects.most_concurrent == 3


async def test_a_thousand_tasks_wait_together() -> None:
    effects = gate(1_000)
    program = '(deftask f (n) :instructions "{{n}}") (length (map f (range 0 1000)))'

    assert await asyncio.wait_for(evaluate(program, effects), 30) == 1_000
    assert effects.most_concurrent == 1_000


async def test_the_first_failure_stops_what_runs_beside_it() -> None:
    stopped = asyncio.Event()

    async def sleep(_: float) -> None:
        await stopped.wait()

    class OneFails(InMemoryEffects):
        async def call_model(
            self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED
        ) -> TaskResult:
            if call.prompt == "bad":
                raise TaskFailed(TaskFailure("llm_error", "no"))
            return await super().call_model(step, call)

    effects = OneFails(lambda call: "x", latency_seconds=1, sleep=sleep)
    error = await failure_of(
        '(sequential :parallel true (task :instructions "slow") (task :instructions "bad"))', effects
    )

    assert error.error.details is not None  # type: ignore[union-attr]
    assert error.error.details["failedStep"] == 1  # type: ignore[union-attr]
    assert effects.cancelled == ["1/1/1/1"]


async def test_cancelling_an_evaluation_cancels_what_it_waits_for() -> None:
    begun = asyncio.Event()

    async def sleep(_: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    effects = InMemoryEffects(lambda call: "x", latency_seconds=1, sleep=sleep)
    program = '(sequential (sequential :parallel true (task :instructions "a") (task :instructions "b")))'
    evaluation = asyncio.ensure_future(evaluate(program, effects))
    await begun.wait()
    evaluation.cancel()
    with pytest.raises(asyncio.CancelledError):
        await evaluation

    assert effects.cancelled == ["1/1/1/1/1", "1/1/1/2/1"]


async def test_a_composite_that_takes_too_long_is_stopped() -> None:
    async def sleep(_: float) -> None:
        await asyncio.Event().wait()

    effects = InMemoryEffects(lambda call: "x", latency_seconds=1, sleep=sleep)
    error = await failure_of('(sequential :timeout 0.01 (task :instructions "a"))', effects)

    assert error.error.reason == "execution_timeout"  # type: ignore[union-attr]
    assert effects.cancelled == ["1/1"]


@pytest.mark.parametrize("pure", ["(let ((f (lambda (f) (f f)))) (f f))", "(loop 100000000 1)"])
async def test_the_time_of_a_composite_bounds_pure_code(pure: str) -> None:
    program = f"(try (sequential :timeout 0.01 {pure}) (catch e e.notes.error.reason))"

    assert await evaluate(program, InMemoryEffects()) == "execution_timeout"


async def test_a_step_that_takes_too_long_fails_the_task_around() -> None:
    error = await failure_of(
        "(sequential 1 (sequential :timeout 0.01 (loop 100000000 1)))", InMemoryEffects()
    )

    details = error.error.details  # type: ignore[union-attr]
    assert details is not None
    assert details["failedStep"] == 1
    assert details["subtaskError"]["reason"] == "execution_timeout"


async def test_an_answer_cannot_pass_for_a_value() -> None:
    answer = TaskResult("said", "COMPLETE", notes={"is_value": True})
    result = await evaluate(
        '(template t () (begin 1 (task :instructions "a"))) (t)', InMemoryEffects([answer])
    )

    assert result == answer


async def test_a_template_of_an_expression_gives_its_value() -> None:
    assert await evaluate("(template t (x) (+ x 1)) (t 2)", InMemoryEffects()) == 3


async def test_a_composite_whose_result_is_known_is_not_run_again() -> None:
    class Resolved(InMemoryEffects):
        async def around(self, step: Step, body: Callable[[], Awaitable[TaskResult]]) -> TaskResult:
            return TaskResult("known", "COMPLETE")

    effects = Resolved()
    result = await evaluate('(sequential (task :instructions "a"))', effects)

    assert result.content == "known"
    assert effects.calls == []


async def test_a_budget_is_not_wrapped_as_the_failure_of_a_step() -> None:
    program = """(with-budget (:calls 1)
      (sequential (task :instructions "a") (try (task :instructions "b") (catch e "caught"))))"""
    error = await failure_of(program, InMemoryEffects(lambda call: "x"))

    assert error.error.resource == "calls"  # type: ignore[union-attr]


async def test_templates_that_call_themselves_twice_end_at_the_budget_of_steps() -> None:
    program = "(template f (n) (try (f n) (catch e (f n)))) (with-budget (:steps 20000) (f 1))"
    error = await failure_of(program, InMemoryEffects())

    assert error.error.resource == "steps"  # type: ignore[union-attr]


async def test_tasks_nest_as_deep_as_the_limit() -> None:
    program = """(deftask leaf () :instructions "x")
      (template down (n) (if (= n 0) (leaf) (down (- n 1))))
      (content (down 198))"""

    assert await evaluate(program, InMemoryEffects(["deep"])) == "deep"


async def test_a_failure_says_which_expression_failed_and_where() -> None:
    error = await failure_of('(sequential\n  (task :instructions "{{x}}"))', InMemoryEffects())

    assert (error.span.line, error.span.column) == (2, 26)
    assert error.error.details is not None  # type: ignore[union-attr]
    assert "failing_expression" in error.error.details  # type: ignore[union-attr]


def gate(count: int) -> InMemoryEffects:
    """Effects that answer only when so many are under way: those that come one by one wait forever."""
    opened = asyncio.Event()

    async def sleep(_: float) -> None:
        if effects.most_concurrent >= count:
            opened.set()
        await opened.wait()

    effects = InMemoryEffects(lambda call: call.prompt, latency_seconds=1, sleep=sleep)
    return effects
