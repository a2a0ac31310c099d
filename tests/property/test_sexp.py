"""A tree's text reads back to the tree; any text is a program or refused with its author's mistakes."""

import json

from hypothesis import HealthCheck, Phase, example, find, given, settings
from hypothesis import strategies as st

from tests.batches import batched
from tests.examples import examples
from tests.property.trees import bodies, exactly, expressions, programs, tasks, trees
from tests.shared_files import shared
from weft.language import ast as language_tree
from weft.language.ast import Literal, Node, Program, Quote, Symbol, TaskNode
from weft.language.diagnostics import InvalidProgram
from weft.language.sexp import print_node, print_program, read_program
from weft.language.source import Source
from weft.language.traversal import structs_in

SLOW_TO_DRAW = [HealthCheck.too_slow, HealthCheck.data_too_large]
PIECES = [
    "(",
    ")",
    "'",
    '"',
    "|",
    "#|",
    "|#",
    ";",
    "\n",
    " ",
    ":",
    "\\",
    "[",
    "]",
    "1",
    "-",
    ".",
    "a.b[0]",
    "nil",
]
FORMS = [
    "(define",
    "(let",
    "(cond",
    "(else",
    "(task",
    "(deftask",
    ":inputs",
    "(script",
    ":argv",
    "((a 1))",
    '"{{x}}"',
]

PIECED = st.lists(st.sampled_from(PIECES + FORMS), max_size=30)
KINDS = {
    kind
    for kind in vars(language_tree).values()
    if isinstance(kind, type) and issubclass(kind, Node) and kind not in {Node, TaskNode}
}


def read(text: str) -> Program:
    return read_program(Source("<test>", text))


@settings(max_examples=examples(200), suppress_health_check=SLOW_TO_DRAW, deadline=None)
@given(programs)
def test_what_was_printed_reads_back_to_the_same_tree(program: Program) -> None:
    text = print_program(program)
    again = read(text)
    assert exactly(again) == exactly(program)
    assert print_program(again) == text


def test_every_kind_of_node_is_drawn() -> None:
    met: set[type[Node]] = set()

    def are_all_met(node: Node) -> bool:
        met.update(type(inner) for inner in structs_in([node]) if isinstance(inner, Node))
        return met >= KINDS

    only_draw = settings(
        max_examples=2000,
        phases=[Phase.generate],
        database=None,
        derandomize=True,  # else it would fail now and then, for some kinds are rare
        suppress_health_check=SLOW_TO_DRAW,
    )
    find(expressions(0) | tasks(0) | bodies(0) | trees(0), are_all_met, settings=only_draw)


@settings(max_examples=examples(100), suppress_health_check=SLOW_TO_DRAW, deadline=None)
@given(trees(2))
def test_a_node_is_printed_without_a_line_break_at_its_end(node: Node) -> None:
    text = print_node(node)
    assert text == text.strip("\n")
    assert exactly(read(text).forms) == exactly((node,))


@given(st.text(max_size=60) | PIECED.map(" ".join) | PIECED.map("".join))
@example("\ud800")
@example("(" * 5000)
@settings(max_examples=examples(500), deadline=None)
def test_a_text_is_a_program_or_invalid(text: str) -> None:
    try:
        program = read(text)
    except InvalidProgram as error:
        for problem in error.found:
            lines = text.splitlines() or [""]
            assert 1 <= problem.span.line <= len(lines) + 1
            assert problem.excerpt()
    else:
        assert exactly(read(print_program(program))) == exactly(program)


@batched("text", json.loads(shared("data", "naughty-strings.json").read_text()))
def test_naughty_strings_survive_as_values_and_as_symbols(text: str) -> None:
    nodes = [Literal(value=text), *([Quote(datum=Symbol(text))] if text else [])]
    for node in nodes:
        assert exactly(read(print_node(node)).forms) == exactly((node,))
    written = '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    assert read(written).forms == (Literal(value=text),)
