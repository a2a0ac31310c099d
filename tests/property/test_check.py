"""Checks: they end with a verdict on any tree, and what they accept fails on no name and no call."""

import asyncio
from typing import Any

import msgspec
from hypothesis import HealthCheck, event, example, given, settings

from tests.examples import examples
from tests.property.closed_programs import closed_programs
from tests.property.trees import programs
from weft.errors import WeftError
from weft.evaluator.budget import EvaluationLimits
from weft.evaluator.errors import TaskFailed
from weft.evaluator.evaluator import Evaluator
from weft.language.ast import Program
from weft.language.check import check_program, required_inputs
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.testing.in_memory_effects import InMemoryEffects

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large]
CHECKED = {
    "unbound-name",
    "wrong-arity",
    "unknown-keyword",
    "duplicate-name",
    "reserved-name",
    "unknown-task",
}
"""What a program that was accepted does not fail on."""


CERTAIN = (
    "not bound",
    "cannot be converted to text or JSON",
    ":files takes",
    ":model takes",
    ":history takes",
    "bad value",
)
"""Nor on what is seen in the constants of its calls."""


def evaluate(program: Program, bindings: dict[str, Any]) -> Any:
    """Return the value of a program whose model requests all succeed, or its error."""
    effects = InMemoryEffects(lambda call: {"success": True}, scripts=lambda run: "", tools={})
    evaluator = Evaluator(effects, limits=EvaluationLimits(operations=20_000, calls=500))
    try:
        return asyncio.run(evaluator.evaluate(program, bindings))
    except WeftError as error:
        return error


def codes_of(error: Any) -> set[str]:
    """All codes in an error and in those that caused it."""
    if isinstance(error, InvalidProgram):
        return {problem.code for problem in error.found}
    if not isinstance(error, TaskFailed):
        return {error.code}
    found = {error.problem.code}
    rest: list[Any] = [msgspec.to_builtins(error.error)]
    while rest:
        one = rest.pop()
        if isinstance(one, dict):
            found |= {value for key, value in one.items() if key == "code" and isinstance(value, str)}
            rest.extend(one.values())
        elif isinstance(one, list):
            rest.extend(one)
    return found


@given(programs)
@settings(max_examples=examples(200), deadline=None, suppress_health_check=SLOW_TO_DRAW)
def test_any_tree_gets_a_verdict(program: Program) -> None:
    found = check_program(program, tools=frozenset(), models=lambda model: None)

    assert len(set(map(str, found))) == len(found)
    assert isinstance(required_inputs(program), tuple)


@given(programs)
@settings(max_examples=examples(100), deadline=None, suppress_health_check=SLOW_TO_DRAW)
def test_a_tree_that_is_accepted_is_not_refused_by_the_evaluator(program: Program) -> None:
    if check_program(program):
        return
    error = evaluate(program, dict.fromkeys(required_inputs(program), 1))
    if isinstance(error, InvalidProgram):
        assert not codes_of(error) & CHECKED


@given(closed_programs())
@example("(define (f) (g)) (define (g) a) (define a 1) (f)")
@example("(define (f a) a) (map f (list 1))")
@example('(deftask review (a) :instructions "{{a}}" :context (:fresh "enabled")) (review 1)')
@settings(max_examples=examples(400), deadline=None, suppress_health_check=SLOW_TO_DRAW)
def test_what_is_accepted_fails_on_no_name_and_no_call(text: str) -> None:
    program = read_program(Source("example", text))
    found = check_program(program)
    event("accepted" if not found else "refused")
    if found:
        return
    value = evaluate(program, dict.fromkeys(required_inputs(program), 1))
    if isinstance(value, WeftError):
        assert not codes_of(value) & CHECKED, value
        assert not [words for words in CERTAIN if words in str(value)], value


@given(closed_programs(mistakes=0))
@settings(max_examples=examples(200), deadline=None, suppress_health_check=SLOW_TO_DRAW)
def test_programs_without_mistakes_are_accepted(text: str) -> None:
    assert check_program(read_program(Source("example", text))) == []
