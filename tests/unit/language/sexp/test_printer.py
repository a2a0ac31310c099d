"""Tree to text: layout, and what cannot be said."""

import math

import pytest

from tests.unit.language.sexp.reading import read, read_one
from weft.language.ast import Apply, Atomic, Begin, FunctionCall, Literal, Node, Program, Variable
from weft.language.cel import parse_text
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import print_node, print_program, read_program
from weft.language.sexp.layout import WIDTH
from weft.language.source import NOWHERE, Source
from weft.limits import MAX_PROGRAM_DEPTH

KEPT = [
    "(define (fact n)\n  (if (<= n 1) 1 (* n (fact (- n 1)))))",
    "(let ((a 1) (b 2)) (+ a b))",
    '\'(a b "c" :d (e nil 1.5))',
    "(cond ((> a 1) 'big) (b) (else 'small))",
    'answer.items[0]["odd key"].x',
    "(|if| |a b| :|c d| |1|)",
    r'"quote \" backslash \\ tab \t bell \u{7} zero width \u{200b}"',
    (
        '(deftask review (code (style "plain") (depth integer 3) (paths string[] (list "a" "b")))\n'
        '  :instructions "Review {{code}} in style {{style}}"\n'
        '  :output "json"\n'
        '  :schema "object"\n'
        "  :timeout 30)"
    ),
]


@pytest.mark.parametrize("text", KEPT)
def test_well_laid_out_text_is_kept(text: str) -> None:
    joined = " ".join(line.strip() for line in text.splitlines())
    assert print_node(read_one(text)) in {text, joined}


def test_short_forms_stand_on_one_line_and_long_ones_are_broken() -> None:
    node = read_one(
        "(let ((first-value (compute-something 1 2 3)) (second-value (compute-something 4 5 6)))"
        " (if (> first-value second-value) (report first-value) (report second-value)))"
    )
    assert print_node(node) == (
        "(let ((first-value (compute-something 1 2 3)) (second-value (compute-something 4 5 6)))\n"
        "  (if (> first-value second-value) (report first-value) (report second-value)))"
    )


def test_no_line_is_longer_than_the_width_where_it_can_be_broken() -> None:
    text = "(define (f x) " + "(g x (list 1 2 3 (h :key x :other (list x x x)))) " * 10 + ")"
    lines = print_node(read_one(text)).splitlines()
    assert len(lines) > 10
    assert max(map(len, lines)) <= WIDTH


def test_a_long_prompt_keeps_its_lines() -> None:
    prompt = 'Review this code.\n\n  * be short\n  * be "kind"\n\nCode:\r\n\t{{code}}\n' + "x" * 60
    printed = print_node(Atomic(instructions=parse_text(prompt, NOWHERE)))
    assert '\n  * be \\"kind\\"\n' in printed
    assert read(printed) == (Atomic(instructions=parse_text(prompt, NOWHERE)),)


def test_the_text_of_a_manual_task_survives_exactly() -> None:
    raw = "  <a>\n\tkeep   this \r\n</a>  \n"
    task = Atomic(instructions=parse_text(raw, NOWHERE), manual_xml=True)
    again = read_one(print_node(task))
    assert isinstance(again, Atomic)
    assert again.instructions is not None
    assert (again.instructions.raw, again.manual_xml) == (raw, True)


def test_forms_of_a_program_are_separated_by_empty_lines() -> None:
    program = read_program(Source("<test>", "(define a 1) a"))
    assert print_program(program) == "(define a 1)\n\na\n"
    assert print_program(Program(())) == ""


def test_a_function_that_is_a_plain_name_is_not_taken_for_a_call_by_name() -> None:
    [node] = read(print_node(Apply(function=Variable(name="f"))))
    assert node == Apply(function=Begin(items=(Variable(name="f"),)))


UNSAYABLE = {"nan": math.nan, "inf": math.inf, "half": "\ud800", "long": 10**5000}


@pytest.mark.parametrize("value", UNSAYABLE.values(), ids=UNSAYABLE)
def test_what_no_program_can_say_is_refused(value: float | str) -> None:
    with pytest.raises(InvalidProgram) as caught:
        print_node(Literal(value=value))
    assert [one.code for one in caught.value.found] == ["bad-value"]


def test_the_deepest_program_is_printed_and_read_back() -> None:
    text = "(f (lambda (x) " * (MAX_PROGRAM_DEPTH // 2 - 1) + "x" + "))" * (MAX_PROGRAM_DEPTH // 2 - 1)
    printed = print_program(read_program(Source("<test>", text)))
    assert print_program(read_program(Source("<test>", printed))) == printed


def test_a_tree_that_is_too_deep_to_print_is_refused() -> None:
    node: Node = Literal(value=1)
    for _ in range(20_000):
        node = FunctionCall(func_name="f", args=(node,))
    with pytest.raises(InvalidProgram) as caught:
        print_node(node)
    assert [one.code for one in caught.value.found] == ["program-too-deep"]
