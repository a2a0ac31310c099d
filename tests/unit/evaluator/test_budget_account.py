"""Purses: what is set aside, in every budget around, and what an error says of who spent it."""

from math import inf, nan

import pytest

from weft.evaluator.budget import EvaluationLimits, Scope
from weft.evaluator.budget_account import ScopeAccount
from weft.evaluator.effects import UNLIMITED, Allowance, BudgetAccount, ModelCall, Step
from weft.evaluator.errors import BudgetExceeded, TaskFailed
from weft.evaluator.evaluator import Evaluator
from weft.evaluator.results import ResourceExhaustion, TaskResult
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.testing.in_memory_effects import InMemoryEffects


def test_what_is_set_aside_is_left_to_nobody_else() -> None:
    outer = Scope({"tokens": 100})
    one, other = ScopeAccount(Scope({}, outer), "one"), ScopeAccount(outer, "other")

    kept = one.reserve(60, 0.5)
    assert other.left() == Allowance(40, inf)
    with pytest.raises(BudgetExceeded, match="60 are reserved for running requests"):
        other.reserve(41, 0)
    kept.settle(10, 0.1)
    assert other.left() == Allowance(90, inf)
    other.reserve(90, 0).release()
    assert (outer.used["tokens"], outer.reserved["tokens"]) == (10, 0)


def test_a_reservation_is_freed_once() -> None:
    scope = Scope({"tokens": 100})
    first, second = ScopeAccount(scope, "a").reserve(10, 0), ScopeAccount(scope, "a").reserve(20, 0)

    first.release()
    first.release()
    first.settle(5, 0)

    assert (scope.reserved["tokens"], scope.used["tokens"]) == (20, 0)
    second.settle(7, 0)
    second.settle(7, 0)
    assert (scope.reserved["tokens"], scope.used["tokens"]) == (0, 7)


def test_settling_never_raises_and_what_is_over_shows_at_the_next_request() -> None:
    scope = Scope({"tokens": 100})
    account = ScopeAccount(scope, "greedy")

    account.reserve(50, 0).settle(300, 0)

    assert account.left().tokens == 0
    with pytest.raises(BudgetExceeded, match=r"most was spent by greedy \(300\)"):
        account.reserve(1, 0)
    with pytest.raises(BudgetExceeded, match="more than 100 tokens"):
        scope.check("tokens")


def test_amounts_that_are_no_amounts_count_nothing() -> None:
    scope = Scope({"tokens": 100})

    ScopeAccount(scope, "odd").reserve(1, 0).settle(nan, -5)

    assert scope.used["tokens"] == scope.used["cost"] == 0


def test_the_error_names_the_biggest_spenders() -> None:
    scope = Scope({"tokens": 1000})
    for name, tokens in (("plan", 100), ("review", 500), ("7", 1), ("sum", 50), ("review", 100)):
        ScopeAccount(scope, name).reserve(tokens, 0).settle(tokens, 0)

    with pytest.raises(BudgetExceeded) as caught:
        ScopeAccount(scope, "last").reserve(400, 0)

    error = caught.value.error
    assert isinstance(error, ResourceExhaustion)
    assert error.message == (
        "a request that may take 400 tokens does not fit the budget: 751 of 1000 are used; "
        "most was spent by review (600), plan (100), sum (50)"
    )
    assert error.metrics == {
        "limit": 1000.0,
        "used": 751.0,
        "reserved": 0.0,
        "spent by review": 600.0,
        "spent by plan": 100.0,
        "spent by sum": 50.0,
    }
    assert all(type(value) is float for value in error.metrics.values())


class Paying(InMemoryEffects):
    """Uses the purse: sets aside 100, and takes what the prompt says."""

    async def call_model(self, step: Step, call: ModelCall, account: BudgetAccount = UNLIMITED) -> TaskResult:
        account.reserve(100, 0).settle(int(call.prompt), 0)
        return TaskResult("ok", "COMPLETE", notes={"usage": {"tokens": 10_000}})


async def value_of(program: str, effects: InMemoryEffects, **limits: float) -> object:
    evaluator = Evaluator(effects, limits=EvaluationLimits(**limits))  # type: ignore[arg-type]
    return await evaluator.evaluate(read_program(Source("<test>", program)))


async def test_what_went_through_the_purse_is_not_counted_again() -> None:
    program = '(loop 3 (task :instructions "50")) "done"'

    assert await value_of(program, Paying(), tokens=250) == "done"


async def test_what_is_over_ends_the_next_effect_of_any_kind_and_no_try_inside_catches_it() -> None:
    program = '(try (begin (task :instructions "900") (script :argv ("ls"))) (catch e "caught"))'
    effects = Paying(scripts=["never"])

    with pytest.raises(BudgetExceeded, match="more than 500 tokens"):
        await value_of(program, effects, tokens=500)
    assert effects.runs == []


async def test_a_budget_inside_is_caught_outside_and_counts_in_both() -> None:
    program = """
    (list (try (with-budget (:tokens 150) (task :instructions "100") (task :instructions "10"))
            (catch e "over"))
          (try (task :instructions "10") (catch e "over")))"""

    found = await value_of(program, Paying(), tokens=1000)

    assert isinstance(found, list)
    assert found[0] == "over"
    assert found[1].content == "ok"


async def test_a_spender_is_its_template_or_its_step() -> None:
    program = (
        '(deftask plan () :instructions "300") (plan) (task :instructions "150") (task :instructions "60")'
    )

    with pytest.raises(TaskFailed, match=r"most was spent by plan \(300\), 2 \(150\)"):
        await value_of(program, Paying(), tokens=500)
