"""Branches: concurrency, keys, errors, cancellation."""

import asyncio
import itertools
from typing import Any

import pytest

from tests.evaluation import MemoryOnly, an_evaluator, value_of
from weft.errors import InternalError
from weft.evaluator import joins
from weft.evaluator.branches import current_branch
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.effects import UNLIMITED, BudgetAccount, ContextQuery, Step
from weft.evaluator.errors import BudgetExceeded, ProgramError, TaskFailed
from weft.evaluator.machine import Machine
from weft.language.sexp import read_program
from weft.language.source import Source


@pytest.mark.parametrize("turns", list(itertools.permutations([0, 2, 5])))
async def test_keys_are_the_same_in_whatever_order_answers_come(turns: tuple[int, ...]) -> None:
    program = """
    (define (ask n) (get (get-context :query (format "q {}" n)) "key"))
    (list (ask 0) (map (lambda (n) (list (ask n) (ask 0) (map ask (list 0 n)))) delays) (ask 0))
    """
    keys = await value_of(program, {"delays": list(turns)})

    def keys_of(item: int) -> list[Any]:
        return [f"2/{item}/1", f"2/{item}/2", [f"2/{item}/3/1/1", f"2/{item}/3/2/1"]]

    assert keys == ["1", [keys_of(1), keys_of(2), keys_of(3)], "3"]


async def test_what_waits_waits_together() -> None:
    effects = MemoryOnly()
    await value_of('(parallel (get-context :query "a 9") (get-context :query "b"))', effects=effects)

    assert effects.began == ["1/1/1", "1/2/1"]
    assert effects.ended == ["1/2/1", "1/1/1"]


async def test_at_most_so_many_wait_at_the_same_time() -> None:
    under_way, most = 0, 0

    class Counting(MemoryOnly):
        async def get_context(
            self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
        ) -> dict[str, Any]:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            answer = await super().get_context(step, query)
            under_way -= 1
            return answer

    program = '(map (lambda (n) (map (lambda (m) (get-context :query "q 3")) (range 5))) (range 20))'
    await value_of(program, effects=Counting(), concurrency=10)

    assert 1 < most <= 20  # at most 10, and each `map` goes on with at least one


async def test_an_error_stops_the_others() -> None:
    effects = MemoryOnly()
    with pytest.raises(ProgramError, match="car of an empty list"):
        await value_of(
            '(parallel (get-context :query "forever") (begin (get-context :query "q 2") (car ())))',
            effects=effects,
        )

    assert effects.cancelled == ["1/1/1"]


async def test_an_error_before_anything_was_awaited_leaves_nothing_behind() -> None:
    effects = MemoryOnly()
    with pytest.raises(ProgramError, match="car of an empty list"):
        await value_of('(parallel (get-context :query "forever") (car ()))', effects=effects)

    assert effects.cancelled == effects.began
    assert len(asyncio.all_tasks()) == 1


async def test_cancelling_the_evaluation_cancels_what_it_waits_for() -> None:
    effects = MemoryOnly()
    program = '(try (map (lambda (n) (get-context :query "forever")) (range 3)) (catch e "caught"))'
    evaluation = asyncio.ensure_future(value_of(program, effects=effects))
    for _ in range(9):
        await asyncio.sleep(0)  # all three have begun
    evaluation.cancel()

    with pytest.raises(asyncio.CancelledError):
        await evaluation
    assert effects.cancelled == effects.began == ["1/1/1", "1/2/1", "1/3/1"]
    assert len(asyncio.all_tasks()) == 1


async def test_a_map_without_effects_needs_one_branch() -> None:
    machine = Machine(MemoryOnly())
    branches: set[int] = set()

    def act(index: int) -> int:
        branches.add(id(current_branch()))
        return index

    assert await machine.run(lambda: machine.each(100_000, act)) == list(range(100_000))
    assert len(branches) == 1


async def test_a_run_inside_an_effect_counts_for_who_waits_for_it() -> None:
    machine = Machine(MemoryOnly(), limits=EvaluationLimits(operations=50))

    def use(steps: int) -> None:
        machine.meter.count(steps)

    async def nested() -> None:
        await machine.run(lambda: use(30), prefix="1/")

    def code() -> None:
        use(10)
        machine.wait(nested())
        use(15)

    with pytest.raises(BudgetExceeded, match="more than 50 steps"):
        await machine.run(code)


async def test_compiled_code_runs_only_inside_the_machine() -> None:
    machine = Machine(MemoryOnly())
    with pytest.raises(InternalError):
        machine.next_key()


async def test_two_evaluations_at_once_do_not_share_their_budgets() -> None:
    evaluator = an_evaluator(calls=3)
    program = read_program(Source("<test>", '(loop 3 (get-context :query "q 2"))'))

    results = await asyncio.gather(evaluator.evaluate(program), evaluator.evaluate(program))

    assert [result["key"] for result in results] == ["3", "3"]


async def test_a_thousand_branches_wait_together() -> None:
    effects = MemoryOnly()
    program = '(length (map (lambda (n) (get-context :query "q 1")) (range 1000)))'

    assert await value_of(program, effects=effects) == 1000
    assert effects.began[:2] == ["1/1/1", "1/2/1"]


class SlowToEnd(MemoryOnly):
    """Effects that clean up in several turns once they are cancelled; `stubborn` ones never end."""

    def __init__(self) -> None:
        super().__init__()
        self.cleaned: list[str] = []
        self.let_go = asyncio.Event()

    async def get_context(
        self, step: Step, query: ContextQuery, account: BudgetAccount = UNLIMITED
    ) -> dict[str, Any]:
        self.began.append(step.key)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(step.key)
            if query.query == "stubborn":
                await self.let_go.wait()
            await asyncio.sleep(0.02)
            self.cleaned.append(step.key)
            raise
        raise AssertionError


_NESTED = '(map (lambda (n) (parallel (get-context :query "a") (get-context :query "b"))) (range 4))'


async def test_nothing_is_left_behind_however_often_an_evaluation_is_cancelled() -> None:
    effects = SlowToEnd()
    evaluation = asyncio.ensure_future(value_of(_NESTED, effects=effects))
    for _ in range(20):
        await asyncio.sleep(0)
    assert len(effects.began) == 8
    while not evaluation.done():
        evaluation.cancel()
        await asyncio.sleep(0)

    assert evaluation.cancelled()
    assert sorted(effects.cleaned) == sorted(effects.cancelled) == sorted(effects.began)
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize(
    "program",
    [
        f"(with-timeout 0.2 {_NESTED})",
        f"(with-timeout 0.3 (with-timeout 0.2 {_NESTED}))",
        f"(sequential :timeout 0.3 (sequential :timeout 0.2 {_NESTED}))",
        f"(with-timeout 0.3 (sequential (sequential :timeout 0.2 {_NESTED})))",
    ],
)
async def test_an_effect_is_cancelled_once_whatever_times_out_around_it(program: str) -> None:
    effects = SlowToEnd()
    with pytest.raises(TaskFailed):
        await value_of(program, effects=effects)

    assert len(effects.cancelled) == 8
    assert sorted(effects.cleaned) == sorted(effects.cancelled) == sorted(effects.began)
    assert len(asyncio.all_tasks()) == 1


async def test_an_effect_that_does_not_end_is_left_to_itself(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(joins, "CLEAN_UP_SECONDS", 0.01)
    effects = SlowToEnd()
    program = '(sequential (with-timeout 0.2 (map (lambda (n) (get-context :query "stubborn")) (range 2))))'
    with pytest.raises(TaskFailed, match="timed out after"):
        await value_of(program, effects=effects)

    assert caplog.text.count("abandoned an effect") == 2
    # Nothing of the evaluation is left, and the end of the process waits for no effect.
    assert asyncio.all_tasks() == {asyncio.current_task()}
    effects.let_go.set()
    await asyncio.sleep(0.01)
