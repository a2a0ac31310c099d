"""`weft print`: any program as S-expressions."""

from pathlib import Path

import pytest

from tests.command_line import weft
from tests.conformance.language.test_pairs import FOLDER, from_sexp
from weft.language.sexp import read_program
from weft.language.source import Source


@pytest.mark.parametrize("name", ["23-cond", "27-loop-with-script", "30-template-returns"])
def test_xml_is_printed_as_s_expressions_that_print_as_themselves(name: str) -> None:
    once = weft("print", FOLDER / f"{name}.xml", db="unused")
    again = weft("print", "-", db="unused", stdin=once.out)

    assert once.code == 0
    assert read_program(Source("<test>", once.out)) == from_sexp(name)
    assert again.out == once.out


def test_the_tree_for_people_and_as_json() -> None:
    tree = weft("print", "-", "--to", "tree", db="unused", stdin="(f 1)")
    data = weft("print", "-", "--to", "json", db="unused", stdin="(f 1)")

    assert tree.out.splitlines()[0] == "FunctionCall  1:1"
    assert data.json["forms"][0]["func_name"] == "f"
    assert weft("print", "-", "--json", db="unused", stdin="(f 1)").out == data.out


def test_a_program_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text("(a (b)")

    ran = weft("print", tmp_path / "a.sexp", db="unused")

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"{tmp_path / 'a.sexp'}:1:1: syntax-error: ")
    assert (
        weft("print", tmp_path / "none.sexp", "--json", db="unused").json["error"]["code"]
        == "invalid-program"
    )
