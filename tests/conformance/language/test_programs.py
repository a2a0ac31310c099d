"""Programs and their values: the table of the pure language."""

from typing import Any

from tests.batches import batched
from tests.conformance.language.built_ins import BUILT_INS
from tests.conformance.language.forms import FORMS
from tests.conformance.language.scheme_programs import SCHEME_PROGRAMS
from tests.evaluation import outcome_of
from weft.language.ast import Symbol


@batched(("program", "expected"), [*FORMS, *BUILT_INS, *SCHEME_PROGRAMS])
async def test_a_program_has_its_value(program: str, expected: Any) -> None:
    outcome = await outcome_of(program)

    assert outcome == expected
    assert type(outcome) is type(expected) or isinstance(outcome, Symbol)  # 2 is not 2.0, true is not 1
