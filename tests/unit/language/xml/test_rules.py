"""What is refused, with its place, its code, and the way to put it right."""

from pathlib import Path

import pytest

from tests.batches import batched
from tests.unit.language.xml.builders import problem, problems
from weft.language.xml.text import MAX_FOUND

D = "<description>d</description>"
LOOP = "<director><description>d</description></director><evaluator><description>e</description></evaluator>"


def refused() -> list[tuple[str, str]]:
    """Return the documents of refused.txt with their messages."""
    lines = Path(__file__).with_name("refused.txt").read_text().splitlines()
    rows = [line for line in lines[3:] if not line.startswith("#")]
    documents = [row.replace("{LOOP}", LOOP).replace("{D}", D).replace("\\n", "\n") for row in rows[::2]]
    return list(zip(documents, (row.removeprefix("  ") for row in rows[1::2]), strict=True))


REFUSED = refused()


@batched(("document", "expected"), REFUSED, ids=range(len(REFUSED)))
def test_a_mistake_is_told_with_its_place_and_the_fix(document: str, expected: str) -> None:
    told = problem(document)
    assert expected in told
    assert told.startswith("t.xml:")


CONFLICT = """<task>
  <description>d</description>
  <context_management>
    <inherit_context>{inherit}</inherit_context><fresh_context>enabled</fresh_context>
  </context_management>
</task>"""


@pytest.mark.parametrize("inherit", ["full", "subset"])
def test_fresh_and_inherited_context_exclude_each_other(inherit: str) -> None:
    told = problem(CONFLICT.format(inherit=inherit))
    assert told.startswith(
        f't.xml:3:3: context-conflict: fresh_context "enabled" excludes inherit_context "{inherit}"'
    )


def test_all_problems_are_told_at_once_in_their_order() -> None:
    told = problems(
        """<task typ="atomic">
  <instruction>x</instruction>
  <inputs><input name="a">{{1 +}}</input>
    <input name="b" from="a..b"/></inputs>
  <manual_xml>yes</manual_xml>
</task>"""
    )
    assert [(one.code, one.span.line) for one in told] == [
        ("unknown-attribute", 1),
        ("unknown-element", 2),
        ("syntax-error", 3),
        ("syntax-error", 4),
        ("bad-value", 5),
    ]


def test_a_misspelt_field_is_not_called_missing_as_well() -> None:
    assert len(problems("<task><instruction>x</instruction></task>")) == 1


def test_reading_ends_at_a_number_of_problems() -> None:
    assert len(problems("<task>" + "<x/>" * 100_000 + "</task>")) == MAX_FOUND


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("<task><description>a\n  b {{x y}}</description></task>", (2, 9)),
        ("<task>\n  <description>\n\n      b\n        {{x y}}</description></task>", (5, 13)),
        ("<task><description>{{x y}}</description></task>", (1, 24)),
        (
            '<task><description>d</description>\n<inputs><input name="a"\n  from="b..c"/></inputs></task>',
            (3, 11),
        ),
        ('<cond>\n <case test="output.a ===  1"><call template="f"/></case></cond>', (2, 23)),
        ("<task>\n  <description\n    >d</description>\n  <x/></task>", (4, 3)),
        ("<task>é<description>ü</description><x/></task>", (1, 1)),
        ("<task><description>üé</description><x/></task>", (1, 36)),
    ],
)
def test_mistakes_inside_texts_have_their_own_places(document: str, place: tuple[int, int]) -> None:
    first = problems(document)[0]
    assert (first.span.line, first.span.column) == place
    assert first.excerpt().endswith("^")
