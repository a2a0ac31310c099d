"""Text to data: atoms, lists, comments, and what is wrong with a text."""

import sys
import time
from typing import Any

import pytest

from tests.batches import batched
from tests.unit.language.sexp.reading import messages, problems, read, read_one
from weft.language.ast import FunctionCall, Literal, Quote, Symbol, Variable
from weft.language.sexp.reader import MAX_PROBLEMS
from weft.limits import MAX_PROGRAM_CHARACTERS, MAX_PROGRAM_DEPTH


@batched(
    ("text", "value"),
    [
        ("1", 1),
        ("-0", 0),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("1e3", 1000.0),
        ("2E-2", 0.02),
        ("true", True),
        ("false", False),
        ("nil", None),
        ('"a b"', "a b"),
        ('""', ""),
        ('"two\nlines"', "two\nlines"),
        (r'"\n\t\r\"\\\|"', '\n\t\r"\\|'),
        (r'"\u00e9\u{1F600}\ud83d\ude00"', "\u00e9\U0001f600\U0001f600"),
        ("\ufeff1", 1),
        ("; a comment\n1 ; another", 1),
        ("#| a #| nested |# comment ) |# 1", 1),
        ("\t\u00a0 1\r\n", 1),
    ],
)
def test_constants(text: str, value: Any) -> None:
    node = read_one(text)
    assert isinstance(node, Literal)
    assert (type(node.value), repr(node.value)) == (type(value), repr(value))


@batched(
    ("text", "name", "path"),
    [
        ("x", "x", ()),
        ("string->number", "string->number", ()),
        ("-", "-", ()),
        ("->x", "->x", ()),
        ("answer.items[0]", "answer", ("items", 0)),
        ('answer["odd key"].x[-1]', "answer", ("odd key", "x", -1)),
        ('answer[""]', "answer", ("",)),
        ("|a b|", "a b", ()),
        (r"|a\|b\n|", "a|b\n", ()),
        ("|a.b|.c", "a.b", ("c",)),
        ("a.|b c|", "a", ("b c",)),
        ("|nil|", "nil", ()),
        ("|1|", "1", ()),
        ("fs:read.text", "fs:read.text", ()),
        ("名前", "名前", ()),
    ],
)
def test_names_and_paths(text: str, name: str, path: tuple[str | int, ...]) -> None:
    assert read_one(text) == Variable(name=name, path=path)


def test_quoted_data() -> None:
    node = read_one("'(a 1 \"s\" :k a.b |x y| () nil 'z)")
    assert isinstance(node, Quote)
    assert isinstance(node.datum, tuple)
    expected = ("a", 1, "s", ":k", "a.b", "x y", (), None, ("quote", "z"))
    assert node.datum == expected
    are_symbols = [isinstance(one, Symbol) for one in node.datum]
    assert are_symbols == [True, False, False, True, True, True, False, False, False]


def test_the_empty_list_is_a_value() -> None:
    assert read_one("()") == Quote(datum=())


def test_nodes_know_their_places() -> None:
    [first, second] = read("(f\n  x)\n'y")
    assert isinstance(first, FunctionCall)
    assert [(one.span.line, one.span.column) for one in (first, first.args[0], second)] == [
        (1, 1),
        (2, 3),
        (3, 1),
    ]


def test_places_count_the_lines_that_excerpts_count() -> None:
    [node] = read("; a\x0b b\u2028 c\n\r\n x")
    assert (node.span.line, node.span.column) == (5, 2)
    assert node.span.source.line(node.span.line) == " x"


@batched(
    ("text", "expected"),
    [
        ("(a (b)", [(1, 1, "syntax-error")]),
        ("(a\n(b", [(1, 1, "syntax-error")]),
        ("(a))", [(1, 4, "syntax-error")]),
        (")(a", [(1, 1, "syntax-error"), (1, 2, "syntax-error")]),
        ('(a "b', [(1, 4, "syntax-error")]),
        ("1 #| 2 #| 3 |#", [(1, 3, "syntax-error")]),
        ("|a", [(1, 1, "syntax-error")]),
        ("'", [(1, 1, "syntax-error")]),
        ("(a ')", [(1, 5, "syntax-error")]),
        (
            r'"a\qb" "\u{110000}" "\ud800"',
            [(1, 3, "syntax-error"), (1, 9, "syntax-error"), (1, 22, "syntax-error")],
        ),
        ("[1]", [(1, 1, "syntax-error"), (1, 3, "syntax-error")]),
        ("01 +1 .5 1. 1/2 0x10", [(1, place, "syntax-error") for place in (1, 4, 7, 10, 13, 17)]),
        ("1e999", [(1, 1, "bad-value")]),
        ("-1e999", [(1, 1, "bad-value")]),
        ("a..b a. a[0]b || :", [(1, place, "syntax-error") for place in (1, 6, 9, 15, 18)]),
        ("x\u200by", [(1, 2, "syntax-error")]),
        ("\x00", [(1, 1, "syntax-error")]),
        ("(f \ud800)", [(1, 4, "bad-value")]),
    ],
)
def test_mistakes_and_their_places(text: str, expected: list[tuple[int, int, str]]) -> None:
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[1 2]", "(list 1 2)"),
        ("{a}", "(dict :key value)"),
        ("`(a ,b)", "quasi-quote"),
        ("(f a, b)", "no commas"),
        ("#t", "true and false"),
        (r'"\d+"', r"\d is not an escape"),
        ('"\\\n"', "backslash at the end of a line"),
        ("((f)\n(g)", "what begins at line 2 is read as a part of it"),
        ("(define (f x)\n  (g x)\n\n(define (h y) y)", "what begins at line 4 is read as a part of it"),
        ("(((", "3 parentheses are never closed"),
        ("1+", "not a JSON number"),
        ("x\u202ey", "U+202E"),
    ],
)
def test_mistakes_say_what_is_right(text: str, part: str) -> None:
    assert part in messages(text)


def test_an_integer_of_too_many_digits_is_refused() -> None:
    longest = sys.get_int_max_str_digits()
    assert read_one("9" * longest) == Literal(value=10**longest - 1)
    assert problems("9" * (longest + 1)) == [(1, 1, "bad-value")]


def test_a_mistake_in_an_atom_does_not_hide_mistakes_in_forms() -> None:
    assert problems('(if) "\\q"') == [(1, 1, "syntax-error"), (1, 7, "syntax-error")]


@pytest.mark.parametrize(
    ("opening", "closing"), [("(", ")"), ("(list ", ")"), ("'", ""), ("(let ((x ", ")) x)")]
)
def test_what_nests_100_000_deep_is_refused_where_the_limit_is_passed(opening: str, closing: str) -> None:
    levels = opening.count("(") or 1
    column = MAX_PROGRAM_DEPTH // levels * len(opening) + 1
    found = problems(opening * 100_000 + "1" + closing * 100_000)
    assert [code for _, _, code in found] == ["program-too-deep"]
    assert column <= found[0][1] <= column + len(opening)


def test_what_nests_to_the_limit_is_read() -> None:
    depth = MAX_PROGRAM_DEPTH
    assert len(read("(list " * depth + "1" + ")" * depth)) == 1
    assert problems("(list " * (depth + 1) + "1" + ")" * (depth + 1)) == [
        (1, 6 * depth + 1, "program-too-deep")
    ]


def test_a_text_that_is_too_long_is_refused() -> None:
    assert problems(" " * (MAX_PROGRAM_CHARACTERS + 1)) == [(1, 1, "program-too-long")]


def test_no_more_problems_are_listed_than_help() -> None:
    assert len(problems(")" * 10_000)) == MAX_PROBLEMS
    assert len(problems("(if)" * 10_000)) == MAX_PROBLEMS


def test_hostile_texts_end_soon() -> None:
    started = time.process_time()
    for piece in ("(", "'", '"\\', "#|", "|", "a.", "(a ", ":a "):
        problems(piece * 200_000)
    assert time.process_time() - started < 20
