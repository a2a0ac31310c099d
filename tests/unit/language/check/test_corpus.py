"""The tables of programs: those that have a value are accepted, those that fail on a name are refused."""

from pathlib import Path
from typing import Any

from tests.batches import batched
from tests.conformance.language.built_ins import BUILT_INS
from tests.conformance.language.forms import FORMS
from tests.conformance.language.operators import ROWS, Row
from tests.conformance.language.scheme_programs import SCHEME_PROGRAMS
from tests.unit.language.check.checking import codes
from weft.language.check import check_program, required_inputs
from weft.language.sexp import read_program
from weft.language.source import Source
from weft.language.xml import read_xml

ROOT = Path(__file__).parents[4]
DOCUMENTS = [
    *sorted((ROOT / "tests/conformance/language/pairs").glob("*.xml")),
    *sorted((ROOT / "examples").glob("*.xml")),
]
PROGRAMS = [*FORMS, *BUILT_INS, *SCHEME_PROGRAMS]
FOUND = ("unbound-name", "wrong-arity", "unknown-keyword", "reserved-name", "duplicate-name")
NEVER_TAKEN = "(cond (false 1) (true 2) (else 3))"


def is_error(expected: Any) -> bool:
    return isinstance(expected, str) and expected.startswith("error: ")


@batched("program", [program for program, expected in PROGRAMS if not is_error(expected)])
def test_a_program_that_has_a_value_is_accepted(program: str) -> None:
    """But for mistakes that a `try` catches, and a case that is never taken."""
    if "(try" not in program and program != NEVER_TAKEN:
        assert codes(program) == []


@batched(
    ("program", "code"),
    [
        (program, expected.removeprefix("error: "))
        for program, expected in PROGRAMS
        if is_error(expected) and expected.removeprefix("error: ") in FOUND
    ],
)
def test_a_program_that_fails_on_a_name_or_a_call_is_refused(program: str, code: str) -> None:
    assert code in codes(program)


@batched("row", ROWS, ids=lambda row: row.name)
def test_a_program_with_tasks_that_does_not_fail_is_accepted(row: Row) -> None:
    program = read_program(Source("example", row.program))
    if not any(path.startswith("error") for path in row.expected):
        assert check_program(program) == []
        assert set(required_inputs(program)) <= set(row.bindings)


@batched("path", DOCUMENTS, ids=lambda path: path.stem)
def test_a_document_is_accepted(path: Path) -> None:
    content = path.read_bytes()

    assert check_program(read_xml(Source(path.name, content.decode()), content)) == []


def test_problems_of_a_document_have_their_place() -> None:
    text = """<template name="review" params="code,style">
  <task type="sequential">
    <description>Review</description>
    <steps>
      <task><instructions>Plan {{code}}</instructions><output_slot>plan</output_slot></task>
      <task><instructions>Do {{plna}}</instructions></task>
    </steps>
  </task>
</template>"""
    found = check_program(read_xml(Source("review.xml", text), text.encode()))

    assert [str(problem) for problem in found] == [
        "review.xml:1:1: unused-parameter: the parameter 'style' of 'review' is not used",
        "review.xml:6:32: unbound-name: 'plna' is not bound; did you mean 'plan'?",
    ]
