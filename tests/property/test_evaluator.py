"""Whatever the tree: an evaluation gives a value or an error of weft's own."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.evaluation import an_evaluator
from tests.examples import examples
from tests.property.trees import programs
from weft.errors import InternalError, WeftError
from weft.language.ast import (
    And,
    Define,
    FunctionCall,
    If,
    Lambda,
    Let,
    Literal,
    Loop,
    Node,
    Parallel,
    Program,
    Quote,
    Symbol,
    Try,
    Variable,
)
from weft.language.builtins import BUILT_IN_NAMES

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.sampled_from([10**30, -(2**63), 1e308, 0.5, -0.0])
    | st.sampled_from(["", "a", "12", "{}", "{", '{"a": [1]}', "é😀\x00", "[" * 3_000])
)
leaves: st.SearchStrategy[Node] = (
    scalars.map(lambda value: Literal(value=value))
    | st.sampled_from(["f", "x", "y", *sorted(BUILT_IN_NAMES)]).map(lambda name: Variable(name=name))
    | st.sampled_from([(), (1, "a"), (Symbol("stop"), 1), ((1, 2), (3,))]).map(
        lambda datum: Quote(datum=datum)
    )
)


def calls(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    """Expressions that do things with what built-ins give."""
    arguments = st.lists(inner, max_size=4).map(tuple)
    names = st.sampled_from(["f", *sorted(BUILT_IN_NAMES)])
    return (
        st.builds(FunctionCall, func_name=names, args=arguments)
        | st.builds(If, test=inner, then=inner, otherwise=inner)
        | st.builds(Let, bindings=st.tuples(st.tuples(st.just("y"), inner)), body=inner)
        | st.builds(Lambda, parameters=st.sampled_from([(), ("x",), ("x", "y")]), body=inner)
        | st.builds(Try, body=inner, name=st.just("x"), handler=inner)
        | st.builds(Loop, count=inner, body=inner)
        | st.builds(Parallel, items=arguments)
        | st.builds(And, items=arguments)
    )


expressions = st.recursive(leaves, calls, max_leaves=25)
busy_programs = st.builds(
    lambda function, forms: Program(forms=(Define(name="f", value=function), *forms)),
    st.builds(Lambda, parameters=st.just(("x",)), body=expressions, name=st.just("f")),
    st.lists(expressions, min_size=1, max_size=3),
)


def evaluate(program: Program) -> None:
    try:
        asyncio.run(an_evaluator(operations=2_000, size=100_000, calls=20, seconds=2).evaluate(program))
    except InternalError:
        raise  # a bug, and no error of the program
    except WeftError:
        return


@settings(max_examples=examples(100), suppress_health_check=SLOW, deadline=None)
@given(programs)
def test_the_evaluator_raises_nothing_but_its_own_errors(program: Program) -> None:
    evaluate(program)


@settings(max_examples=examples(300), suppress_health_check=SLOW, deadline=None)
@given(busy_programs)
def test_nor_do_built_ins_on_whatever_others_gave(program: Program) -> None:
    evaluate(program)
