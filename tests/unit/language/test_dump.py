"""The syntax tree as JSON and as lines."""

import json
from pathlib import Path

from tests.batches import batched
from weft.language.dump import program_data, program_lines
from weft.language.reading import read_text
from weft.runs.files import read_file

PAIRS = Path(__file__).parents[2] / "conformance" / "language" / "pairs"


def test_a_node_has_its_kind_its_place_and_what_was_written() -> None:
    data = program_data(read_text('(f \'a\n   :k "s")', "<test>"))

    assert data == {
        "forms": [
            {
                "node": "FunctionCall",
                "line": 1,
                "column": 1,
                "func_name": "f",
                "args": [{"node": "Quote", "line": 1, "column": 4, "datum": "a"}],
                "keywords": [["k", {"node": "Literal", "line": 2, "column": 7, "value": "s"}]],
            }
        ]
    }


def test_lines_are_indented_by_depth() -> None:
    assert list(program_lines(read_text("(if x 1)", "<test>"))) == [
        "If  1:1",
        "  test: Variable  1:5",
        '    name: "x"',
        "  then: Literal  1:7",
        "    value: 1",
    ]


@batched("path", sorted(PAIRS.glob("*.xml")), ids=lambda path: path.stem)
def test_every_program_has_both_forms(path: Path) -> None:
    program = read_file(path)

    assert json.loads(json.dumps(program_data(program))) == program_data(program)
    assert all(line.strip() for line in program_lines(program))


def test_a_program_as_deep_as_allowed_is_no_crash() -> None:
    program = read_text("(f " * 900 + "1" + ")" * 900, "<test>")

    assert sum("FunctionCall" in line for line in program_lines(program)) == 900
