"""What comes from outside: bindings, the answers of tools, what models say they used."""

from enum import IntEnum, StrEnum
from typing import Any

import pytest

import weft
from tests.evaluation import an_evaluator, value_of
from weft.app.evaluation import evaluate_async
from weft.evaluator.conversion import from_python
from weft.evaluator.effects import ContextQuery
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskResult
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.testing.in_memory_effects import InMemoryEffects


class Colour(StrEnum):
    RED = "red"


class Size(IntEnum):
    LARGE = 3


def test_values_are_taken_in_as_the_language_has_them() -> None:
    value = {"a": (1, 2.5, [True, None]), Colour.RED: Colour.RED, "n": Size.LARGE}
    taken = from_python(value)

    assert taken == {"a": [1, 2.5, [True, None]], "red": "red", "n": 3}
    assert type(taken["red"]) is str
    assert type(taken["n"]) is int


_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("inf"), "inf is not a JSON number"),
        ([{"a": float("nan")}], "nan is not a JSON number"),
        ({1: 2}, "keys must be strings; this is a Python int"),
        ({"a": {1, 2}}, "a Python set is not JSON"),
        (object(), "a Python object is not JSON"),
        (_CYCLE, "nested deeper than 200"),
    ],
)
async def test_what_is_no_json_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidProgram, match=f"the value of 'x' cannot be used: .*{message}"):
        await value_of("x", {"x": value})

    effects = InMemoryEffects(tools={"t:x": lambda: value})
    with pytest.raises(TaskFailed, match=f"the result of tool 't:x': .*{message}"):
        await evaluate_async("(t:x)", effects=effects)


async def test_bindings_last_as_long_as_the_evaluation() -> None:
    evaluator = an_evaluator()

    async def run(text: str, **bindings: Any) -> Any:
        return await evaluator.evaluate(read_program(Source("<test>", text)), bindings)

    assert await run("(list (length (list 1)) length)", length=7) == [1, 7]
    assert await run("(apply length (list (list 1)))") == 1
    assert await run("(define y 1) (define x 1) x", x=1) == 1
    assert await run("(+ x y)") == 2
    await run("z", z=1)
    with pytest.raises(TaskFailed, match="'z' is not bound"):
        await run("z")
    assert await run("(list x)", x=5) == [5]
    assert await run("x") == 1


@pytest.mark.parametrize(
    "usage",
    [
        {"input_tokens": 3, "output_tokens": None},
        {"input_tokens": "three", "output_tokens": 3, "cost": "much"},
        {"tokens": 3, "input_tokens": "three", "cost": [1]},
        {"tokens": float("nan"), "cost": float("inf")},
        {"tokens": -4},
        {"tokens": 10**400},
    ],
)
async def test_an_answer_is_not_lost_when_its_usage_cannot_be_counted(usage: dict[str, Any]) -> None:
    effects = InMemoryEffects([TaskResult("yes", "COMPLETE", notes={"usage": usage})])
    program = '(with-budget (:tokens (expt 10 400) :cost 1000) (get (task :instructions "a") "content"))'

    assert await evaluate_async(program, effects=effects) == "yes"


async def test_a_tool_that_raises_fails_as_tools_fail() -> None:
    effects = InMemoryEffects(tools={"t:divide": lambda n: 1 / n})
    program = '(try (t:divide 0) (catch e (get-in e (list "notes" "error" "reason"))))'

    assert await evaluate_async(program, effects=effects) == "tool_execution_error"


@pytest.mark.parametrize("amount", ["(expt 10 400)", "1e300"])
async def test_a_huge_budget_is_a_budget(amount: str) -> None:
    program = f"(with-timeout {amount} (with-budget (:steps {amount}) (map (lambda (x) x) (list 1 2))))"
    assert await value_of(program) == [1, 2]


_DEEP = "(define (deep n) (if (= n 0) 0 (list (deep (- n 1)))))"


@pytest.mark.parametrize(
    ("program", "place"),
    [
        (f"1 (begin {_DEEP} (deep 900))", "<test>:1:3"),
        ("(template t () 1)\n(template t () 2)", "<test>:2:1"),
        (f'(begin\n {_DEEP} (define x (deep 900))\n (condition "x[0] == x"))', "<test>:3:13"),
    ],
)
async def test_errors_of_whole_values_have_a_place(program: str, place: str) -> None:
    with pytest.raises((TaskFailed, InvalidProgram), match=f"(?s).*{place}"):
        await value_of(program)


@pytest.mark.parametrize("program", [b"(+ 1 2)", bytearray(b"(+ 1 2)"), 5, None])
def test_what_is_no_program_is_refused(program: Any) -> None:
    with pytest.raises(InvalidProgram, match="a program is source text, a file, a node or a list of forms"):
        weft.evaluate(program)


def test_a_value_that_holds_itself_is_no_node() -> None:
    with pytest.raises(InvalidProgram, match="contains itself"):
        weft.build.node(_CYCLE)


async def test_inputs_that_nest_too_deeply_have_a_place() -> None:
    program = '(define (f n)\n (task :instructions "x" :inputs ((a (f n)) (b (f n)))))\n(f 1)'
    with pytest.raises(TaskFailed, match=r"<test>:2:2: depth-exhausted: more than 500 concurrent forms"):
        await value_of(program)


@pytest.mark.parametrize(
    ("answer", "violation"),
    [
        (["a.py"], "Expected `object`, got `array`"),
        ({"matches": [{"id": "a.py"}]}, "missing required field `content` - at `$.matches[0]`"),
        ({"context_summary": 3}, "Expected `str`, got `int` - at `$.context_summary`"),
        ({"context_summary": {1, 2}}, "a Python set is not JSON"),
    ],
)
async def test_an_answer_of_memory_that_cannot_be_parsed_fails_for_that_reason(
    answer: Any, violation: str
) -> None:
    effects = InMemoryEffects(contexts=[answer])
    with pytest.raises(TaskFailed, match="the result of memory is not an AssociativeMatchResult") as caught:
        await evaluate_async('(get-context :query "q")', effects=effects)

    error = caught.value.result().notes["error"]
    assert error["reason"] == "context_parsing_failure"
    assert violation in error["details"]["violations"][0]


async def test_get_context_hands_the_fields_of_a_template_on() -> None:
    effects = InMemoryEffects()
    program = (
        '(get-context :query "q" :template-description "Review code" :template-type "atomic"'
        ' :template-subtype "evaluator")'
    )
    await evaluate_async(program, effects=effects)

    query = effects.steps[0].request
    assert isinstance(query, ContextQuery)
    assert query.template_description == "Review code"
    assert (query.template_type, query.template_subtype) == ("atomic", "evaluator")
