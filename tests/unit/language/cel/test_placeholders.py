"""Placeholders: what a text with `{{...}}` is read as."""

import contextlib
import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.batches import batched
from tests.examples import examples
from tests.shared_files import shared
from weft.language.ast import FunctionCall, If, Literal, Node, Scalar, Variable
from weft.language.cel import expression_text, parse_path, parse_text
from weft.language.cel.tokens import MAX_DEPTH, MAX_PROBLEMS
from weft.language.diagnostics import InvalidProgram
from weft.language.source import NOWHERE, Source, Span
from weft.language.traversal import raise_recursion_limit

with raise_recursion_limit():
    """Raises the limit of recursion now: Hypothesis warns when it changes during a test."""


def call(name: str, *args: Node, **keywords: Node) -> FunctionCall:
    return FunctionCall(func_name=name, args=args, keywords=tuple(keywords.items()))


def var(name: str, *path: str | int) -> Variable:
    return Variable(name=name, path=path)


def lit(value: Scalar) -> Literal:
    return Literal(value=value)


PARTS: list[tuple[str, tuple[str | Node, ...]]] = [
    ("", ("",)),
    ("plain", ("plain",)),
    ("{{a}}", (var("a"),)),
    ("x {{ a }} y", ("x ", var("a"), " y")),
    ("{{a}}{{b}}", (var("a"), var("b"))),
    ("{{\n  a\n}}", (var("a"),)),
    ("{{a.b.c}}", (var("a", "b", "c"),)),
    ("{{a[0].b[12]}}", (var("a", 0, "b", 12),)),
    ("{{a[\"odd key\"]['k']}}", (var("a", "odd key", "k"),)),
    ("{{größe}}", (var("größe"),)),
    ("{{a.true}}", (var("a", "true"),)),
    ("{{answer.odd-key}}", (var("answer", "odd-key"),)),
    ("{{f()}}", (call("f"),)),
    ("{{f(a, 'b')}}", (call("f", var("a"), lit("b")),)),
    ("{{f(n=3, x=1.5)}}", (call("f", n=lit(3), x=lit(1.5)),)),
    ("{{f(flag=true, off=false, none=null)}}", (call("f", flag=lit(True), off=lit(False), none=lit(None)),)),
    ("{{f(a, -2, k=-0.5)}}", (call("f", var("a"), lit(-2), k=lit(-0.5)),)),
    ("{{f(v={{inner}})}}", (call("f", v=var("inner")),)),
    ("{{f({{ a.b }}, {{b}})}}", (call("f", var("a", "b"), var("b")),)),
    ("{{f(g(x), h=g(g(1)))}}", (call("f", call("g", var("x")), h=call("g", call("g", lit(1)))),)),
    ("{{system:read_files(a)}}", (call("system:read_files", var("a")),)),
    ("{{string-append(a, b)}}", (call("string-append", var("a"), var("b")),)),
    ("{{number->string(1)}}", (call("number->string", lit(1)),)),
    ("{{empty?(xs)}}", (call("empty?", var("xs")),)),
    ('{{"{{"}}', (lit("{{"),)),
    ('{{"}}"}}', (lit("}}"),)),
    ("{{'it\\'s'}}", (lit("it's"),)),
    (r'{{"\n\t\"\\\u00e9\x41\101\U0001F600"}}', (lit('\n\t"\\éAA😀'),)),
    (r'{{r"\d"}}', (lit("\\d"),)),
    ("{{3}}{{1e3}}{{true}}{{null}}", (lit(3), lit(1000.0), lit(True), lit(None))),
    (f"{{{{{10**30}}}}}", (lit(10**30),)),
    ("{a} {% if x %} }} {", ("{a} {% if x %} }} {",)),
    ("{{a}}}}", (var("a"), "}}")),
    ('{"k": {"v": 1}}', ('{"k": {"v": 1}}',)),
    ("{{a}} b {{c}} d", (var("a"), " b ", var("c"), " d")),
]


@batched(("raw", "parts"), PARTS)
def test_a_text_is_read_to_its_parts(raw: str, parts: tuple[str | Node, ...]) -> None:
    text = parse_text(raw, NOWHERE)

    assert text.parts == parts
    assert text.raw == raw
    assert [type(part) for part in text.parts] == [type(part) for part in parts]


def test_literals_keep_their_types() -> None:
    (read,) = parse_text("{{f(1, 1.0, true, 0)}}", NOWHERE).parts

    assert isinstance(read, FunctionCall)
    assert [type(arg.value) for arg in read.args if isinstance(arg, Literal)] == [int, float, bool, int]


REFUSED = [
    ("{{", "1:1", "syntax-error", "never closed"),
    ("a\n  {{b", "2:3", "syntax-error", "never closed"),
    ("{{}}", "1:3", "syntax-error", "expected a name"),
    ("{{a b}}", "1:5", "syntax-error", "expected '}}' to close the placeholder"),
    ("{{a + b}}", "1:5", "syntax-error", "has no operators, found '+'"),
    ("{{a == 1}}", "1:5", "syntax-error", "has no operators"),
    ("{{!a}}", "1:3", "syntax-error", "has no operators"),
    ("{{- 1}}", "1:3", "syntax-error", "has no operators"),
    ("{{-a}}", "1:3", "syntax-error", "has no operators"),
    ("{{a ? b : c}}", "1:5", "syntax-error", "has no operators"),
    ("{{f(a > 1)}}", "1:7", "syntax-error", "has no operators"),
    ("{{f(a | upper)}}", "1:7", "syntax-error", "has no operators"),
    ("{{f(a}}", "1:6", "syntax-error", "expected ',' or ')' after an argument of 'f'"),
    ("{{f(a b)}}", "1:7", "syntax-error", "expected ',' or ')'"),
    ("{{f(a,)}}", "1:7", "syntax-error", "expected a name"),
    ("{{f(n=1, a)}}", "1:10", "syntax-error", "positional argument follows a named argument"),
    ("{{f(n=1, n=2)}}", "1:10", "duplicate-name", "'n' is given twice"),
    ("{{f(1=2)}}", "1:5", "syntax-error", "expected a name before '='"),
    ("{{f(a.b=2)}}", "1:5", "syntax-error", "expected a name before '='"),
    ("{{f({{a}}=2)}}", "1:5", "syntax-error", "expected a name before '='"),
    ("{{f(x).y}}", "1:7", "syntax-error", "a path cannot follow a call"),
    ("{{a.}}", "1:5", "syntax-error", "expected the name of a field"),
    ("{{a.0}}", "1:4", "syntax-error", "found '.0'"),
    ("{{a[b]}}", "1:5", "syntax-error", "whole number from 0 or a string"),
    ("{{a[-1]}}", "1:5", "syntax-error", "whole number from 0"),
    ("{{a[1.5]}}", "1:5", "syntax-error", "whole number from 0"),
    ("{{a[0}}", "1:6", "syntax-error", "expected ']'"),
    ("{{[1]}}", "1:3", "syntax-error", "expected a name"),
    ("{{{a}}}", "1:3", "syntax-error", "expected a name"),
    ("{{{{a}}}}", "1:3", "syntax-error", "expected a name"),
    ("{{'a\nb'}}", "1:3", "syntax-error", "not closed on its line"),
    ("{{'\\q'}}", "1:3", "syntax-error", "unknown escape '\\q'"),
    ("{{'\\ud800'}}", "1:3", "syntax-error", "unknown escape"),
    ("{{'\\U00110000'}}", "1:3", "syntax-error", "unknown escape"),
    ("{{12ab}}", "1:3", "syntax-error", "is not a number"),
    ("{{1e999}}", "1:3", "bad-value", "too large"),
    ("{{" + "9" * 5_000 + "}}", "1:3", "bad-value", "too large"),
]


@batched(("raw", "place", "code", "message"), REFUSED)
def test_a_bad_placeholder_is_refused_at_its_place(raw: str, place: str, code: str, message: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        parse_text(raw, Span(Source("f", raw)))

    (problem,) = caught.value.found
    assert (str(problem.span), problem.code) == (f"f:{place}", code)
    assert message in problem.message
    assert len(problem.message) < 600


def test_an_unclosed_placeholder_says_how_braces_are_written() -> None:
    with pytest.raises(InvalidProgram, match=re.escape('write {{"{{"}} where')):
        parse_text("a {{ b", NOWHERE)


def test_the_problems_of_all_placeholders_are_told() -> None:
    with pytest.raises(InvalidProgram) as caught:
        parse_text("{{a+b}} {{fine}}\n{{1x}} {{", NOWHERE)

    assert [(one.span.line, one.span.column) for one in caught.value.found] == [(1, 4), (2, 3), (2, 8)]


def test_the_problems_of_one_text_are_bounded() -> None:
    with pytest.raises(InvalidProgram) as caught:
        parse_text("{{+}}" * 100_000, NOWHERE)

    assert len(caught.value.found) == MAX_PROBLEMS


def test_places_count_on_from_the_place_of_the_text() -> None:
    text = parse_text("{{a}}\n {{f(b)}}", Span(Source("f", ""), line=7, column=20))

    nodes = [part for part in text.parts if isinstance(part, Variable | FunctionCall)]
    assert [str(node.span) for node in nodes] == ["f:7:22", "f:8:4"]
    assert isinstance(nodes[1], FunctionCall)
    assert str(nodes[1].args[0].span) == "f:8:6"


def test_an_unknown_column_stays_unknown_on_the_first_line() -> None:
    text = parse_text("{{a}}\n{{b}}", Span(Source("f", ""), line=7, column=0))

    assert [str(part.span) for part in text.parts if isinstance(part, Variable)] == ["f:7", "f:8:3"]


def test_nesting_is_bounded() -> None:
    def nested(levels: int) -> str:
        return "{{" + "f(" * levels + "a" + ")" * levels + "}}"

    parse_text(nested(MAX_DEPTH), NOWHERE)
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(InvalidProgram) as caught:
            parse_text(nested(levels), NOWHERE)
        assert [problem.code for problem in caught.value.found] == ["program-too-deep"]


def test_a_long_text_is_read_in_linear_time() -> None:
    def seconds(count: int) -> float:
        raw = 'line\n{{a.b}} and {{f(x, n=1)}} "}} {\n' * count
        started = time.process_time()
        assert len(parse_text(raw, NOWHERE).parts) == 4 * count + 1
        return time.process_time() - started

    few = min(seconds(1_000) for _ in range(3))
    assert seconds(10_000) < 10 * few * 8


PATHS = [
    ("name", var("name")),
    (" name ", var("name")),
    ("name.field", var("name", "field")),
    ("name[0].x", var("name", 0, "x")),
    ('name["odd key"]', var("name", "odd key")),
    ("steps[2].content", var("steps", 2, "content")),
    ("my-slot", var("my-slot")),
]


@pytest.mark.parametrize(("text", "variable"), PATHS)
def test_a_path_is_read(text: str, variable: Variable) -> None:
    assert parse_path(text, NOWHERE) == variable


@pytest.mark.parametrize(
    "text", ["", " ", "1", "true", "a b", "a.", ".a", "a[", "a[]", "f(x)", "{{a}}", "a+b", "'a'", '"']
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        parse_path(text, Span(Source("f", text)))

    assert [problem.code for problem in caught.value.found] == ["syntax-error"]


# Printing

names = st.from_regex(r"\A[a-zé_][a-z0-9_]{0,4}((-|->|:)[a-z0-9]{1,3}){0,2}\??\Z").filter(
    lambda name: name not in ("true", "false", "null")
)
texts = st.text(max_size=8) | st.sampled_from(["{{", "}}", '"', "\\", "a\nb", "\x00", "\x85"])
literals = st.builds(
    Literal,
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
)
variables = st.builds(
    Variable,
    name=names,
    path=st.lists(st.integers(0, 10**20) | names | texts, max_size=4).map(tuple),
)
nodes: st.SearchStrategy[Node] = st.recursive(
    literals | variables,
    lambda inner: st.builds(
        FunctionCall,
        func_name=names,
        args=st.lists(inner, max_size=3).map(tuple),
        keywords=st.dictionaries(names, inner, max_size=3).map(lambda found: tuple(found.items())),
    ),
    max_leaves=8,
)


@given(nodes)
@settings(deadline=None, max_examples=examples(300))
def test_what_was_printed_is_read_back(node: Node) -> None:
    raw = "{{" + expression_text(node) + "}}"

    text = parse_text(raw, NOWHERE)

    assert text.parts == (node,)
    assert repr(text.parts[0]).count("True") == repr(node).count("True")  # 1 and true are equal in Python


@given(variables)
@settings(deadline=None)
def test_a_printed_variable_is_a_path(variable: Variable) -> None:
    assert parse_path(expression_text(variable), NOWHERE) == variable


@pytest.mark.parametrize(
    "node",
    [
        var("odd name"),
        var("true"),
        call("+", lit(1)),
        call("f", **{"a b": lit(1)}),
        lit(float("inf")),
        lit(float("nan")),
        If(test=lit(True), then=lit(1)),
        call("f", If(test=lit(True), then=lit(1))),
    ],
)
def test_what_a_placeholder_cannot_say_is_not_printed(node: Node) -> None:
    with pytest.raises(ValueError, match="placeholder"):
        expression_text(node)


# Documentation


def test_the_examples_of_the_page_are_placeholders() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "conditions.md").read_text()
    examples = re.findall(r"^\| `(.+)` \| ", page.partition("## Placeholders")[2], re.MULTILINE)

    assert len(examples) == 6
    for example in examples:
        (node,) = parse_text(example, NOWHERE).parts
        assert not isinstance(node, str)


# Hostile texts

pieces = st.sampled_from(
    [*"{}()[].,=:-+'\"\\ \n1a", "{{", "}}", "f(", "{{a}}", "x.y", '"s"', "true", "\ud800"]
)


@given(st.lists(pieces, max_size=30).map("".join) | st.text(max_size=60))
@settings(deadline=None, max_examples=examples(500))
def test_any_text_is_read_or_refused(raw: str) -> None:
    for read in (parse_text, parse_path):
        with contextlib.suppress(InvalidProgram):
            read(raw, NOWHERE)


@given(st.text(st.characters(exclude_characters="{")))
def test_a_text_without_placeholders_is_one_part(raw: str) -> None:
    assert parse_text(raw, NOWHERE).parts == (raw,)


def test_naughty_strings_pass_through_unchanged() -> None:
    for text in json.loads(shared("data", "naughty-strings.json").read_text()):
        literal = Literal(value=text)
        variable = Variable(name="a", path=(text,))
        raw = f"{{{{{expression_text(literal)}}}}} and {{{{{expression_text(variable)}}}}}"
        assert parse_text(raw, NOWHERE).parts == (literal, " and ", variable)
        if "{{" not in text:
            assert parse_text(text, NOWHERE).parts == (text,)
