"""Conditions mean what Google's CEL says they mean; hostile text ends in weft's own errors."""

import contextlib
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from weft.language.ast import Literal
from weft.language.cel import ConditionError, expression_text, parse_condition
from weft.language.diagnostics import InvalidProgram
from weft.language.source import NOWHERE
from weft.language.traversal import raise_recursion_limit

with raise_recursion_limit():
    """Raises the limit of recursion now: Hypothesis warns when it changes during a test."""

ERROR = "an error"
FIELDS = ("a", "b", "c")

Pair = tuple[str, str]
"""A condition for weft, and the same for CEL, whose checker of static types `dyn` keeps out of it."""


def both(text: str) -> Pair:
    return f"({text})" if text[0] == "-" else text, f"dyn({text})"


def joined(template: str, *parts: Pair) -> Pair:
    ours, theirs = (template.format(*[part[side] for part in parts]) for side in (0, 1))
    return f"({ours})", f"dyn({theirs})"


ints = st.integers(-4, 4) | st.sampled_from([2**63 - 1, -(2**63), 2**62, 3_037_000_500])
doubles = st.sampled_from([0.0, -0.0, 1.0, 1.5, -2.5, 2.0, 0.1, 1e300, -1e300, 5e-324])
strings = st.text("ab.é😀\n\"'\\", max_size=4)
scalars = st.none() | st.booleans() | ints | doubles | strings
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | strings, inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "bool": st.booleans(),
    "int": ints,
    "double": doubles,
    "string": strings,
    "list": st.lists(values, max_size=3),
    "map": st.dictionaries(st.sampled_from(FIELDS) | strings, values, max_size=3),
}
NAMES = (*(f"a_{kind}" for kind in KINDS), "x", "y", "output")
bindings = st.fixed_dictionaries({name: KINDS.get(name[2:], values) for name in NAMES})

SHAPES: dict[str, list[tuple[str, str]]] = {
    "null": [],
    "bool": [
        *((f"{{}} {sign} {{}}", "bool bool") for sign in ("&&", "||", "==", "<")),
        *((f"{{}} {sign} {{}}", "int double") for sign in ("<", "<=", ">", ">=", "==", "!=")),
        *((f"{{}} {sign} {{}}", "int int") for sign in ("<", "<=", ">", ">=", "==", "!=")),
        *((f"{{}} {sign} {{}}", "string string") for sign in ("<", ">=", "==", "!=")),
        *((f"{{}}.{name}({{}})", "string string") for name in ("startsWith", "endsWith", "contains")),
        *(
            (f'{{}}.matches("{it}")', "string")
            for it in ("a", "^a+$", "[^b]", ".", "(?i)B", r"\\\\.", "^$", "é")
        ),
        *((f"has({{}}.{field})", "map") for field in FIELDS),
        ("!{}", "bool"),
        ("{} == {}", "any any"),
        ("{} != {}", "list list"),
        ("{} == {}", "map map"),
        ("{} in {}", "any list"),
        ("{} in {}", "string map"),
        ("{} in {}", "any map"),
        ("matches({}, {})", "string string"),
    ],
    "int": [
        *((f"{{}} {sign} {{}}", "int int") for sign in "+-*/%"),
        ("-{}", "int"),
        *(("size({})", kind) for kind in ("string", "list", "map")),
        *(("{}.size()", kind) for kind in ("string", "list", "map")),
    ],
    "double": [*((f"{{}} {sign} {{}}", "double double") for sign in "+-*/"), ("-{}", "double")],
    "string": [("{} + {}", "string string")],
    "list": [("{} + {}", "list list"), ("[]", ""), ("[{}]", "any"), ("[{}, {}]", "any any")],
    "map": [("{{}}", ""), ('{{"a": {}}}', "any"), ('{{"b": {}, "c": {}}}', "any any")],
    "any": [
        *((f"{{}}.{field}", "map") for field in FIELDS),
        *((f"{{}}.{field}", "any") for field in FIELDS),
        ("{}[{}]", "list int"),
        ("{}[{}]", "list double"),
        ("{}[{}]", "map string"),
        ("{}[{}]", "any any"),
        *((f"{{}} {sign} {{}}", "any any") for sign in ("+", "-", "/", "%", "<", "in", "&&", "||")),
        ("-{}", "any"),
        ("!{}", "any"),
        ("size({})", "any"),
        ("has({}.a)", "any"),
        ("{}.contains({})", "any any"),
    ],
}
"""What gives a value of a kind (or an error): a template, and the kinds of its parts."""


@st.composite
def conditions(draw: st.DrawFn, kind: str = "bool", levels: int = 4) -> Pair:
    """Draw a condition that mostly has the right types in the right places, so that it mostly has a value."""
    if draw(st.integers(0, 20)) == 0:
        kind = "any"
    choice = draw(st.integers(0, 9))
    if not levels or choice < 2:
        return draw(leaves(kind))
    if choice == 2:
        parts = [draw(conditions(part, levels - 1)) for part in ("bool", kind, kind)]
        return joined("{} ? {} : {}", *parts)
    shapes = SHAPES[kind] or SHAPES["any"]
    template, part_kinds = draw(st.sampled_from(shapes))
    return joined(template, *[draw(conditions(part, levels - 1)) for part in part_kinds.split()])


def leaves(kind: str) -> st.SearchStrategy[Pair]:
    literals = KINDS.get(kind, scalars).filter(lambda value: not isinstance(value, list | dict))
    names = st.sampled_from(
        ["x", "y", "output", "x.a", "y[0]", "output.b"] if kind == "any" else [f"a_{kind}"]
    )
    if kind in ("list", "map"):
        return names.map(both)
    return (literals.map(lambda value: expression_text(Literal(value=value))) | names).map(both)


def ours(text: str, bound: dict[str, Any]) -> Any:
    try:
        return parse_condition(text, NOWHERE).evaluate(bound.__getitem__)
    except (ConditionError, InvalidProgram):
        return ERROR


def theirs(text: str, bound: dict[str, Any]) -> Any:
    cel = pytest.importorskip("cel_expr_python.cel")
    environment = cel.NewEnv(variables=dict.fromkeys(NAMES, cel.Type.DYN))
    try:
        value = environment.compile(text).eval(data=bound)
    except RuntimeError:
        return ERROR
    return ERROR if value.type() == cel.Type.ERROR else value.plain_value()


def are_same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, list):
        return len(one) == len(other) and all(map(are_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(are_same(one[key], other[key]) for key in one)
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return bool(one == other)


@given(conditions(), bindings)
@settings(deadline=None, max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
def test_a_condition_has_the_value_that_cel_gives_it(condition: Pair, bound: dict[str, Any]) -> None:
    assert are_same(ours(condition[0], bound), theirs(condition[1], bound)), condition


FLAT = [
    "1 + 2 * 3 - 4 / 2 % 3",
    "x == 1 || y == 2 && output == 3",
    "!false && true || x.a",
    "true ? 1 : false ? 2 : 3",
    "1 < 2 == true",
    "-x + -1 - -y",
    "--1 == 1 && !!true",
    'x.a.b[0]["c"].a == 1',
    "1 in [1, 2] == true",
    "2 - 1 - 1 == 0",
    "100 / 10 / 5",
    "[1, 2,]",
    '{"a": 1,}',
    "0x1F == 31 && -0x10 == -16 && 007 == 7",
    ".5 + 1.5e1",
    r"'\x41\101\u00e9\U0001F600\n\'' + r'\d'",
    "// comment\n true // more",
    "-9223372036854775808",
    "x\n.\ta",
]


@pytest.mark.parametrize("text", FLAT)
@pytest.mark.parametrize("bound", [{"x": 1, "y": 2, "output": 3}, {"x": {"a": True}, "y": None, "output": 3}])
def test_operators_bind_as_in_cel(text: str, bound: dict[str, Any]) -> None:
    assert are_same(ours(text, bound), theirs(text, bound))


OPERANDS = ["x", "y.a", "1", "true", "-x", "!y", "size(y)", "[x]", '"a"', "2.5"]
OPERATORS = ["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||", "?"]


@st.composite
def operator_soups(draw: st.DrawFn) -> str:
    """Operands with operators between them and no parentheses."""
    text = draw(st.sampled_from(OPERANDS))
    for operator in draw(st.lists(st.sampled_from(OPERATORS), max_size=6)):
        then = f"? {draw(st.sampled_from(OPERANDS))} :" if operator == "?" else operator
        text += f" {then} {draw(st.sampled_from(OPERANDS))}"
    return text


@given(operator_soups(), bindings)
@settings(deadline=None, max_examples=examples(300))
def test_a_run_of_operators_is_read_as_in_cel(text: str, bound: dict[str, Any]) -> None:
    expected = theirs(text, bound)

    if expected is not ERROR:  # CEL also refuses what has the wrong static types
        assert are_same(ours(text, bound), expected)


WORDS = "&& || == in has( size( x output .a 0x r' 1e9 null true .matches( 'a' {{ }} // 99999999999999999999"
pieces = st.sampled_from([*"()[]{}.,:?!<>=&|+-*/%\"'\\ \n`@#$1a\ud800", *WORDS.split()])


@given(st.lists(pieces, max_size=30).map("".join) | st.text(max_size=60), bindings)
@example("(" * 101, {})
@example("'" + "a" * 9_000, {})
@example("\\", {})
@settings(deadline=None, max_examples=examples(500))
def test_any_text_is_a_condition_or_is_refused(text: str, bound: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidProgram, ConditionError):
        parse_condition(text, NOWHERE).evaluate(bound.__getitem__)
