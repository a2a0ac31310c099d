"""Conditions: values, errors with their places, bounds, and the examples of the documentation."""

import contextlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.batches import batched
from tests.shared_files import shared
from weft.language.ast import Literal, Symbol
from weft.language.cel import ConditionError, expression_text, parse_condition
from weft.language.cel.tokens import MAX_CONDITION_CHARACTERS, MAX_DEPTH, MAX_VALUE_SIZE
from weft.language.diagnostics import InvalidProgram
from weft.language.source import NOWHERE, Source, Span

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "conditions.md"


BOUND: dict[str, Any] = {
    "output": {"valid": True, "errors": 2, "two": 2.0, "items": [{"n": 1}, None], "": "empty", "huge": 2**64},
    "text": "naïve 😀",
    "function": len,
    "symbol": Symbol("stop"),
    "pair": (1, 2),
    "i": 1,
    "pattern": "(",
}


def value_of(text: str, bound: dict[str, Any] = BOUND) -> Any:
    return parse_condition(text, Span(Source("f", text))).evaluate(bound.__getitem__)


VALUES = [
    ("output.items[i - 1].n", 1),
    ("output.items[0.0].n", 1),
    ('output[""]', "empty"),
    ("text.size()", 7),
    ("text.matches('^na.ve')", True),
    ("matches(text, 'é')", False),
    ("'a' + 'b' == \"ab\"", True),
    ("5 - 3 - 1", 1),
    ("2 + 3 * 4", 14),
    ("(2 + 3) * 4", 20),
    ("-7 / 2", -3),
    ("-7 % 2", -1),
    ("7 % -2", 1),
    ("1.0 / 0.0 > 1e308", True),
    ("0.0 / 0.0 == 0.0 / 0.0", False),
    ("1.0 / -0.0 < 0.0", True),
    ("output.two == 2 && output.errors < 2.5", True),
    ("9007199254740993 == 9007199254740992.0", False),
    ("true == 1", False),
    ("null == false", False),
    ("[true] == [1]", False),
    ("{'a': 1} == {'b': 1}", False),
    ("pair == [1, 2] && 2 in pair && pair[1] == 2 && pair + [3] == [1, 2, 3]", True),
    ("2.0 in [1, 2]", True),
    ("'valid' in output && !('x' in output) && !(1 in output)", True),
    ("i == 1 ? 'one' : i == 2 ? 'two' : 'many'", "one"),
    ("true ? 1 : output.missing", 1),
    ("[]", []),
    ("{'a': {'b': [1, null,],},}", {"a": {"b": [1, None]}}),
    ("has(output.valid) && !has(output.other)", True),
    ("size(output.items)", 2),
    ("function != null && null != symbol && !(function == null)", True),
    ("// all of it\ntrue // really", True),
    ("--1 == 1 && !!true && -(-(1)) == 1", True),
]


@batched(("text", "value"), VALUES)
def test_a_condition_has_its_value(text: str, value: Any) -> None:
    found = value_of(text)

    assert found == value
    assert type(found) is type(value)


ERRORS = [
    ("output.vaild", "1:8", "missing-field", "there is no field 'vaild'; did you mean 'valid'?"),
    ("output.items[1].n", "1:17", "wrong-type", "null has no field 'n'"),
    ("output.items[2]", "1:13", "missing-field", "there is no item 2 in a list of 2"),
    ("output.items[-1]", "1:13", "missing-field", "there is no item -1"),
    ("output.items[0.5]", "1:13", "wrong-type", "the index of a list is a whole number"),
    ("output.items['a']", "1:13", "wrong-type", "the index of a list is a whole number, not a string"),
    ("output.items[1.0/0.0]", "1:13", "wrong-type", "whole number"),
    ("output.items[0.0/0.0]", "1:13", "wrong-type", "whole number"),
    ("output.items[true]", "1:13", "wrong-type", "whole number, not a bool"),
    ("output[1]", "1:7", "wrong-type", "the key of a map is a string, not an int"),
    ("'abc'[0]", "1:6", "wrong-type", "a string has no parts"),
    ("missing.a", "1:1", "unbound-name", "name 'missing' is not bound"),
    ("has(output.items.a)", "1:18", "wrong-type", "a list has no field 'a'"),
    ("has(output.x.y)", "1:12", "missing-field", "no field 'x'"),
    ("i + 1.0", "1:3", "wrong-type", "'+' does not take an int and a double; int and double cannot be mixed"),
    ("i + 'a'", "1:3", "wrong-type", "'+' does not take an int and a string"),
    ("5.0 % 2.0", "1:5", "wrong-type", "'%' does not take a double and a double"),
    ("-text", "1:1", "wrong-type", "'-' does not take a string"),
    ("!i", "1:1", "wrong-type", "the operand of '!' must be true or false, not an int"),
    ("i && true", "1:1", "wrong-type", "an operand of '&&' must be true or false, not an int"),
    ("i ? 1 : 2", "1:1", "wrong-type", "the condition before '?' must be true or false"),
    ("text < 1", "1:6", "wrong-type", "'<' does not take a string and an int"),
    ("null < null", "1:6", "wrong-type", "'<' does not take null and null"),
    ("1 in text", "1:3", "wrong-type", "'in' does not take an int and a string"),
    ("null in output", "1:6", "wrong-type", "'in' does not take null and a map"),
    ("size(1)", "1:1", "wrong-type", "'size' does not take an int"),
    ("size(function)", "1:1", "wrong-type", "'size' does not take a function or symbol"),
    ("text.contains(1)", "1:6", "wrong-type", "'contains' takes strings, not an int"),
    ("i.startsWith('a')", "1:3", "wrong-type", "'startsWith' takes strings, not an int"),
    ("text.matches(null)", "1:6", "wrong-type", "'matches' takes strings, not null"),
    ("text.matches(pattern)", "1:6", "bad-value", "bad regular expression: missing )"),
    ("9223372036854775807 + 1", "1:21", "bad-value", "does not fit in 64 bits"),
    ("-9223372036854775808 / -1", "1:22", "bad-value", "does not fit in 64 bits"),
    ("-9223372036854775808 % -1", "1:22", "bad-value", "does not fit in 64 bits"),
    ("-(-9223372036854775808)", "1:1", "bad-value", "does not fit in 64 bits"),
    ("i / 0", "1:3", "bad-value", "division by zero"),
    ("i % 0", "1:3", "bad-value", "division by zero"),
    ("output.huge > 1", "1:13", "bad-value", "does not fit in 64 bits"),
    ("output.huge == output.huge", "1:13", "bad-value", "does not fit in 64 bits"),
    ("output == output", "1:8", "bad-value", "does not fit in 64 bits"),
    ("{i: 1}", "1:2", "wrong-type", "the key of a map is a string, not an int"),
    ("{'a': 1, 'a': 2}", "1:10", "duplicate-name", "the key 'a' is given twice"),
    ("function.x", "1:10", "wrong-type", "a function or symbol has no field 'x'"),
    ("'a' == function", "1:5", "wrong-type", "a function or symbol cannot be compared with a string"),
    ("function == 1", "1:10", "wrong-type", "a function or symbol cannot be compared"),
    ("symbol == 'stop'", "1:8", "wrong-type", "a function or symbol cannot be compared"),
    ("true &&\n  output.x", "2:10", "missing-field", "no field 'x'"),
    ("output.x || output.y", "1:8", "missing-field", "no field 'x'"),
]


@batched(("text", "place", "code", "message"), ERRORS)
def test_what_cannot_be_decided_is_an_error_at_its_place(
    text: str, place: str, code: str, message: str
) -> None:
    with pytest.raises(ConditionError) as caught:
        value_of(text)

    problem = caught.value.problem
    assert (str(problem.span), problem.code) == (f"f:{place}", code)
    assert message in problem.message
    assert caught.value.problems() == [problem.as_json()]
    assert caught.value.span is problem.span


REFUSED = [
    ("", "1:1", "syntax-error", "expected a value, found the end"),
    ("1 +", "1:4", "syntax-error", "expected a value, found the end"),
    ("1 2", "1:3", "syntax-error", "expected an operator or the end, found '2'"),
    ("a = 1", "1:3", "syntax-error", "did you mean '=='?"),
    ("a === 1", "1:3", "syntax-error", "did you mean '=='?"),
    ("a !== 1", "1:3", "syntax-error", "did you mean '!='?"),
    ("a and b", "1:3", "syntax-error", "did you mean '&&'?"),
    ("a or b", "1:3", "syntax-error", "did you mean '||'?"),
    ("a & b", "1:3", "syntax-error", "did you mean '&&'?"),
    ("(1", "1:3", "syntax-error", "expected ')'"),
    ("[1 2]", "1:4", "syntax-error", "expected ',' or ']'"),
    ("{'a'}", "1:5", "syntax-error", "expected ':' after a key"),
    ("a ? b", "1:6", "syntax-error", "expected ':'"),
    ("true ? true ? 1 : 2 : 3", "1:13", "syntax-error", "expected ':'"),
    ("!-a", "1:2", "syntax-error", "expected a value, found '-'"),
    ("in", "1:1", "syntax-error", "expected a value"),
    (".a", "1:1", "syntax-error", "expected a value, found '.'"),
    ("a.`b`", "1:3", "syntax-error", 'other names are written ["..."]'),
    ("'a", "1:1", "syntax-error", "not closed on its line"),
    (r"'\q'", "1:1", "syntax-error", "unknown escape"),
    ("{{a}} == 1", "1:1", "syntax-error", "without braces"),
    ("1u", "1:1", "syntax-error", "'1u' is not a number"),
    ("b'a'", "1:1", "syntax-error", "not part of the subset: strings with the prefix 'b'"),
    ("x.map(y, y)", "1:3", "syntax-error", "not part of the subset: method 'map'; supported functions: "),
    ("x.exists(y, y > 1)", "1:3", "syntax-error", "not part of the subset"),
    (
        "int(x)",
        "1:1",
        "syntax-error",
        "not part of the subset: function 'int'; supported functions: has",
    ),
    ("timestamp('2025')", "1:1", "syntax-error", "not part of the subset"),
    ("x.startswith('a')", "1:3", "syntax-error", "did you mean 'startsWith'?"),
    ("startsWith(x, 'a')", "1:1", "syntax-error", "supported functions: "),
    ("eval('1')", "1:1", "syntax-error", "not part of the subset"),
    ("__import__('os')", "1:1", "syntax-error", "not part of the subset"),
    ("size()", "1:1", "wrong-arity", "'size' takes 1 argument"),
    ("size(1, 2)", "1:1", "wrong-arity", "'size' takes 1 argument"),
    ("x.size(1)", "1:3", "wrong-arity", "'size' takes no argument"),
    ("x.contains()", "1:3", "wrong-arity", "'contains' takes 1 argument"),
    ("has(x)", "1:1", "wrong-type", "has() takes one field, as in has(output.errors)"),
    ("has(x['a'])", "1:1", "wrong-type", "has() takes one field"),
    ("has(x.a, x.b)", "1:1", "wrong-type", "has() takes one field"),
    ("9223372036854775808", "1:1", "bad-value", "does not fit in 64 bits"),
    ("1e999", "1:1", "bad-value", "too large"),
    ("x.matches('(')", "1:11", "bad-value", "bad regular expression: missing )"),
    ("x.matches('" + "a" * 1_001 + "')", "1:11", "bad-value", "at most 1000 characters"),
    ("a" * (MAX_CONDITION_CHARACTERS + 1), "1:1", "program-too-long", "at most 10000 characters"),
    ("(" * (MAX_DEPTH + 1), f"1:{MAX_DEPTH + 1}", "program-too-deep", "nested deeper than 100 levels"),
]


@batched(("text", "place", "code", "message"), REFUSED)
def test_what_is_no_condition_is_refused_at_its_place(text: str, place: str, code: str, message: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        parse_condition(text, Span(Source("f", text)))

    (problem,) = caught.value.found
    assert (str(problem.span), problem.code) == (f"f:{place}", code)
    assert message in problem.message
    assert len(problem.message) < 600


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false && output.x", False),
        ("output.x && false", False),
        ("true || output.x", True),
        ("output.x || true", True),
        ("1 || true", True),
        ("output.x || output.y || true", True),
        ("(output.x && true) || true", True),
        ("missing && false", False),
    ],
)
def test_an_operand_that_decides_makes_up_for_an_error(text: str, value: bool) -> None:
    assert value_of(text) is value


def test_a_condition_says_what_it_reads() -> None:
    read = parse_condition(
        "output.items[0]['k'].n == x && has(output.errors) && y[i].z in [output.valid, x] || size(z.a) > 0",
        NOWHERE,
    )

    assert read.names == ("output", "x", "y", "i", "z")
    assert read.paths == (
        ("output", "items", 0, "k", "n"),
        ("x",),
        ("output",),
        ("y",),
        ("i",),
        ("output", "valid"),
        ("z", "a"),
    )


def test_a_condition_keeps_its_text_and_place() -> None:
    span = Span(Source("f", ""), line=3, column=5)
    read = parse_condition("a.b", span)

    assert read.text == "a.b"
    with pytest.raises(ConditionError) as caught:
        read.evaluate({"a": {}}.__getitem__)
    assert str(caught.value.span) == "f:3:7"


def test_only_a_boolean_holds() -> None:
    def holds(text: str) -> bool:
        return parse_condition(text, Span(Source("f", text))).holds(BOUND.__getitem__)

    assert holds("output.valid")
    assert not holds("!output.valid")
    for text in ("1", "null", "'true'", "[]", "output"):
        with pytest.raises(ConditionError, match="a condition must be true or false"):
            holds(text)
    with pytest.raises(ConditionError, match="no field"):
        holds("output.x")


def test_a_lookup_may_raise_either_error_for_a_name() -> None:
    def missing(name: str) -> Any:
        raise NameError(name)

    with pytest.raises(ConditionError, match="name 'a' is not bound"):
        parse_condition("a", NOWHERE).evaluate(missing)


def test_names_are_looked_up_only_where_they_are_needed() -> None:
    asked: list[str] = []

    def lookup(name: str) -> Any:
        asked.append(name)
        return True

    assert parse_condition("a || b ? c : d", NOWHERE).evaluate(lookup) is True
    assert asked == ["a", "c"]


# Bounds


def chain(part: str, sign: str) -> str:
    count = (MAX_CONDITION_CHARACTERS - 20) // len(part + sign)
    return sign.join([part] * count)


LONG = [
    chain("true", "&&"),
    chain("false", "||"),
    chain("1", "+"),
    chain("i", "=="),
    chain("true?1:", "") + "2",
    "!" * 9_000 + "true",
    "-" * 9_000 + "1",
    "m" + ".m" * 4_000,
    "m" + "['m']" * 1_900,
    "[" + "1," * 4_000 + "]",
    "(" * MAX_DEPTH + "1" + ")" * MAX_DEPTH,
    "[" * MAX_DEPTH + "]" * MAX_DEPTH,
    "size([" * (MAX_DEPTH // 2) + "])" * (MAX_DEPTH // 2),
    "m.m.m || " * 1_000 + "true",
]


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_a_long_condition_is_read_and_evaluated(text: str) -> None:
    endless: dict[str, Any] = {}
    endless["m"] = endless

    parse_condition(text, NOWHERE).evaluate({"i": 1, "m": endless}.__getitem__)


@pytest.mark.parametrize(
    "opening", ["(", "[", "{'a':", "size(", "has(", "x[", "x.size(", "!(", "-(", "true?("]
)
def test_deep_nesting_ends_at_its_limit(opening: str) -> None:
    with pytest.raises(InvalidProgram, match="program-too-deep"):
        parse_condition((opening * MAX_CONDITION_CHARACTERS)[: MAX_CONDITION_CHARACTERS - 10], NOWHERE)


def test_a_chain_of_methods_is_nesting_too() -> None:
    with pytest.raises(InvalidProgram, match="program-too-deep"):
        parse_condition("x" + ".size()" * 1_000, NOWHERE)


LARGE: dict[str, Any] = {
    "s": "a" * 900_000,
    "l": list(range(300_000)),
    "m": {str(number): number for number in range(300_000)},
    "k": "x" * 5_000_000,
}
COSTLY: list[Callable[[], str]] = [
    lambda: "s + s == s",
    lambda: "l + l + l + l == l",
    lambda: chain("(l == l)", "&&"),
    lambda: chain("(m == m)", "&&"),
    lambda: chain("(-1 in l)", "||"),
    lambda: chain("s.matches('(a*)*b')", "||"),
    lambda: chain("k.contains('y' + s)", "||"),
    lambda: chain("'a'.matches(s + 'b')", "||"),
    lambda: chain("[s + 'b']", "=="),
    lambda: chain("m[k]", "||"),
    lambda: chain("m.nothing", "||"),
]


@pytest.mark.parametrize("text", COSTLY, ids=range(len(COSTLY)))
def test_much_work_ends_at_its_limit(text: Callable[[], str]) -> None:
    read = parse_condition(text(), NOWHERE)

    started = time.process_time()
    with contextlib.suppress(ConditionError):
        read.evaluate(LARGE.__getitem__)
    assert time.process_time() - started < 20


def test_a_message_repeats_only_the_beginning_of_long_words() -> None:
    word = "x" * 9_000
    for text in (word, f"output.{word}", f"output['{word}']", f"has(i.{word})"):
        with pytest.raises(ConditionError) as caught:
            value_of(text)
        assert len(caught.value.problem.message) < 300
    for text in (f"{word}(1)", f"i.{word}(1)", f"i {word}", f"1 '{word}'", f"1{word}"):
        with pytest.raises(InvalidProgram) as refused:
            value_of(text)
        assert len(refused.value.found[0].message) < 600


def test_what_plus_makes_is_bounded() -> None:
    half = "a" * (MAX_VALUE_SIZE // 2)

    assert value_of("size(s + s)", {"s": half}) == MAX_VALUE_SIZE
    with pytest.raises(ConditionError, match="bad-value"):
        value_of("s + s + 'a'", {"s": half})
    with pytest.raises(ConditionError, match="bad-value"):
        value_of("l + l", {"l": [0] * (MAX_VALUE_SIZE // 2 + 1)})


def test_deep_values_are_compared() -> None:
    one: Any = []
    other: Any = []
    for _ in range(50_000):
        one, other = [one], [other]

    assert value_of("a == b", {"a": one, "b": other})
    assert not value_of("a == b", {"a": one, "b": [other]})


def test_values_that_never_end_run_out_of_work() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(ConditionError, match="too expensive"):
        value_of("a == b", {"a": endless, "b": [endless]})


def test_half_characters_are_no_text_to_match() -> None:
    with pytest.raises(ConditionError, match="a lone surrogate"):
        value_of("a.matches('x')", {"a": "\ud800"})
    with pytest.raises(ConditionError, match="bad regular expression"):
        value_of("'x'.matches(a)", {"a": "\ud800"})


def test_naughty_strings_are_values_like_others() -> None:
    for text in json.loads(shared("data", "naughty-strings.json").read_text()):
        written = expression_text(Literal(value=text))
        bound = {"output": {text: text, "s": text}}
        assert value_of(f"output[{written}] == {written}", bound) is True
        assert value_of(f"{written} in output && output.s.contains({written})", bound) is True
        assert value_of(f"size({written})", bound) == len(text)


# Documentation


def examples() -> list[tuple[str, str]]:
    page = PAGE.read_text()
    return [
        (text.replace("\\|", "|"), outcome)
        for text, outcome in re.findall(r"^\| `(.+)` \| `?([a-z-]+)`? \|$", page, re.MULTILINE)
    ]


def test_the_page_has_examples() -> None:
    assert len(examples()) >= 25


@batched(("text", "outcome"), examples())
def test_the_examples_of_the_page_are_right(text: str, outcome: str) -> None:
    (bound,) = re.findall(r"^With `output` = `(.+)`:$", PAGE.read_text(), re.MULTILINE)
    try:
        found = json.dumps(value_of(text, {"output": json.loads(bound)}))
    except ConditionError as error:
        found = error.problem.code

    assert found == outcome


@pytest.mark.parametrize("operator", ["&&", "||"])
def test_nothing_makes_up_for_too_much_work(operator: str) -> None:
    values = {"x": list(range(300_000)), "y": list(range(300_000))}
    sign = "==" if operator == "&&" else "!="
    text = f" {operator} ".join([f"x {sign} y"] * 5 + ["true" if operator == "||" else "false"])
    with pytest.raises(ConditionError, match="too expensive"):
        parse_condition(text, NOWHERE).evaluate(values.__getitem__)
