"""Budgets: what is counted, for whom, and what catches the error."""

import asyncio
import time

import pytest

from tests.evaluation import MemoryOnly, an_evaluator, outcome_of, value_of
from weft.errors import InternalError
from weft.evaluator.branches import current_branch
from weft.evaluator.budget import EvaluationLimits, Scope
from weft.evaluator.effects import ContextPayload, ModelCall, Step
from weft.evaluator.errors import BudgetExceeded, ProgramError
from weft.evaluator.forms.error_locations import Truncation
from weft.evaluator.machine import Machine
from weft.evaluator.metered_effects import MeteredEffects
from weft.evaluator.results import ResourceExhaustion, TaskFailure
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.language.task_fields import ContextManagement

SPIN = "(define (spin n) (spin (+ n 1))) "


def test_a_use_counts_in_every_scope_around() -> None:
    outer = Scope({"calls": 3})
    inner = Scope({"calls": 9}, outer)
    inner.spend("calls", 2)

    assert (inner.left("calls"), outer.left("calls")) == (1, 1)


def test_the_outermost_scope_that_is_used_up_is_the_one_that_is_told() -> None:
    outer = Scope({"calls": 1})
    inner = Scope({"calls": 1}, outer)

    with pytest.raises(BudgetExceeded) as raised:
        inner.spend("calls", 2)
    assert raised.value.scope is outer


async def test_every_step_counts_and_none_too_many() -> None:
    count = "(define (count n) (if (= n 0) 0 (count (- n 1)))) (count {})"

    assert await value_of(count.format(49), operations=50) == 0
    with pytest.raises(BudgetExceeded) as raised:
        await value_of(count.format(50), operations=50)
    error = raised.value.error
    assert isinstance(error, ResourceExhaustion)
    assert (error.resource, error.metrics) == ("steps", {"limit": 50, "used": 51})
    assert raised.value.span.line == 1


@pytest.mark.parametrize(
    "program",
    [
        SPIN + "(spin 0)",
        SPIN + "(try (spin 0) (catch e 1))",
        SPIN + "(map spin (list 1 2))",
        SPIN + "(try (map (lambda (n) (try (spin n) (catch e 1))) (list 1)) (catch e 1))",
        "(loop 1000000 nil)",
        "(define (f) (f)) (f)",
        "(define (f a b) (f b a)) (f 1 2)",
        "(define (f a b c) (f b a c)) (f 1 2 3)",
        "(define (f a b c d) (f b a c d)) (f 1 2 3 4)",
        "(define xs (range 100000)) (loop 900 (reverse xs))",
        "(reduce (lambda (a b) b) 0 (range 2000))",
        "(for-each (lambda (a b) b) (range 2000) (range 2000))",
    ],
)
async def test_no_program_escapes_the_limit_of_steps(program: str) -> None:
    assert await outcome_of(program, operations=1000) == "error: steps-exhausted"


async def test_a_timeout_ends_code_that_never_waits() -> None:
    started = time.monotonic()

    with pytest.raises(BudgetExceeded) as raised:
        await value_of(SPIN + "(with-timeout 0.05 (spin 0))", operations=10**12)

    assert isinstance(raised.value.error, TaskFailure)
    assert raised.value.error.reason == "execution_timeout"
    assert time.monotonic() - started < 5


async def test_a_timeout_cancels_what_waits() -> None:
    effects = MemoryOnly()
    program = (
        '(try (with-timeout 0.01 (map (lambda (n) (get-context :query "forever")) (range 3))) (catch e 7))'
    )

    assert await value_of(program, effects=effects) == 7
    assert sorted(effects.cancelled) == ["1/1/1", "1/2/1", "1/3/1"]
    assert len(asyncio.all_tasks()) == 1


async def test_the_whole_evaluation_can_have_a_time() -> None:
    assert await outcome_of('(try (get-context :query "forever") (catch e 1))', seconds=0.01) == (
        "error: execution-timeout"
    )
    assert await outcome_of(SPIN + "(spin 0)", seconds=0.01) == "error: execution-timeout"


async def test_an_inner_timeout_that_is_longer_does_not_help() -> None:
    program = '(try (with-timeout 0.01 (with-timeout 60 (get-context :query "forever"))) (catch e "outer"))'

    assert await value_of(program) == "outer"


async def test_a_timeout_error_of_an_effect_is_no_timeout_of_ours() -> None:
    class Impatient(MemoryOnly):
        async def get_context(self, *_: object) -> dict[str, object]:
            raise TimeoutError("the effect's own")

    with pytest.raises(InternalError, match="the effect's own"):
        await value_of('(with-timeout 60 (get-context :query "q"))', effects=Impatient())


async def test_calls_are_counted_before_they_are_made() -> None:
    effects = MemoryOnly()
    with pytest.raises(BudgetExceeded, match="more than 4 calls"):
        await value_of('(map (lambda (n) (get-context :query "q")) (range 9))', effects=effects, calls=4)

    assert len(effects.began) <= 4


async def test_each_evaluation_has_the_limits_for_itself() -> None:
    evaluator = an_evaluator(calls=1)
    program = read_program(Source("<test>", '(get (get-context :query "q") "word")'))

    assert [await evaluator.evaluate(program) for _ in range(3)] == ["q", "q", "q"]


async def test_a_smaller_limit_of_size_holds_for_every_value() -> None:
    assert await outcome_of("(append (range 60) (range 60))", size=100) == "error: size-exhausted"
    assert await outcome_of('(string-append "abcdef" "abcdef")', size=10) == "error: size-exhausted"
    assert await outcome_of("(list (range 60) (range 60))", size=100) == "error: size-exhausted"
    assert await outcome_of("(length (range 60))", size=100) == 60


async def test_a_limit_of_size_is_caught() -> None:
    assert await value_of("(try (range 100000000) (catch e 1))") == 1


def test_the_limits_have_defaults() -> None:
    assert EvaluationLimits().budgets() == {"steps": 10_000_000, "calls": 10_000}


async def test_tokens_and_cost_are_counted_from_the_usage_a_model_reports() -> None:
    machine = Machine(MeteredEffects(MemoryOnly()), limits=EvaluationLimits(tokens=250, cost=1.2))
    settings = ContextManagement(
        inherit_context="full",
        accumulate_data=False,
        accumulation_format="notes_only",
        fresh_context="disabled",
    )
    call = ModelCall(prompt="p", context=ContextPayload(settings=settings))

    def ask(times: int) -> Scope:
        for _ in range(times):
            machine.wait(machine.effects.call_model(Step(machine.next_key(), call), call))
        return current_branch().scope

    scope = await machine.run(lambda: ask(2))
    assert (scope.used["calls"], scope.used["tokens"], scope.used["cost"]) == (2, 200, 1.0)
    scope = await machine.run(lambda: ask(3))  # the answer is there, and is kept
    assert scope.used["tokens"] == 300
    with pytest.raises(BudgetExceeded, match="more than 250 tokens"):
        await machine.run(lambda: ask(4))


@pytest.mark.parametrize(
    "program",
    [
        "(define (f n) (try (f (+ n 1)) (catch e (f (+ n 1))))) (f 0)",
        "(loop 500 (try (car ()) (catch e 1)))",
        f"(loop 100 (+ {'1 ' * 20_000}))",
        f"(define (f a) 1) (loop 100 (f (list {'1 ' * 20_000})))",
        "(length (map (lambda (i) (range 50000)) (range 100)))",
        '(define x (range 40000)) (loop 100 (condition "size(x) > 5"))',
    ],
)
async def test_what_takes_long_counts_steps(program: str) -> None:
    with pytest.raises(BudgetExceeded, match="more than 20000 steps") as failure:
        await value_of(program, operations=20_000)

    assert failure.value.span.line == 1


async def test_of_a_large_expression_only_what_is_shown_is_printed() -> None:
    quoted = f"(quote {'(' * 20}{'a ' * 5_000}{')' * 20})"
    for large in ("1 " * 20_000, f'"{"x" * 1_000_000}"', quoted, f"(list {'(list 1 2) ' * 5_000})"):
        with pytest.raises(ProgramError) as failure:
            await value_of(f"(car (list) {large})")
        error = failure.value.error
        assert isinstance(error, TaskFailure)
        expression = (error.details or {})["failing_expression"]

        assert len(expression) == 203
        assert expression.startswith("(car (list) " + large.replace("(quote ", "'")[:100])
        assert expression.endswith("...")


async def test_a_small_node_is_not_clipped() -> None:
    node = read_program(Source("<test>", '(let ((a \'(1 (2 b)))) (if (= a 1) "x {{a}}" (f :b a)))')).forms[0]
    assert Truncation().node(node) is node
