"""Programs and libraries from files and folders."""

from pathlib import Path

import pytest

from weft.language.ast import FunctionCall, Literal
from weft.language.diagnostics import InvalidProgram
from weft.language.library import TaskLibrary
from weft.language.reading import read_bytes, read_text
from weft.runs.files import find_files, load_definitions, load_files, load_library, read_file

XML = '<template name="greet" params="who"><task><description>Hello {{who}}</description></task></template>'
SEXP = '(deftask look (x) :description "Look at {{x}}")\n(define (f x) x)\n(look "a")'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.xml").write_text(XML)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.weft").write_text(SEXP)
    (tmp_path / "notes.txt").write_text("(")
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "c.sexp").write_text("(")
    return tmp_path


@pytest.mark.parametrize("suffix", [".sexp", ".weft", ".lisp", ".SEXP"])
def test_suffixes_of_s_expressions(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_text("1")

    assert read_file(path).forms == (Literal(value=1),)


def test_a_library_is_the_templates_of_all_files_below_a_folder(folder: Path) -> None:
    library = load_library(folder)

    assert sorted(one.name for one in library) == ["greet", "look"]


def test_hidden_files_and_other_suffixes_are_left_out(folder: Path) -> None:
    assert [path.name for path in find_files(folder)] == ["a.xml", "b.weft"]


def test_a_library_loads_what_it_does_not_have_yet(folder: Path) -> None:
    library = TaskLibrary()
    load_library(folder / "a.xml", library)
    load_library(str(folder / "sub"), library)

    assert len(library) == 2


def test_the_problems_of_all_files_are_told_at_once_and_nothing_is_registered(folder: Path) -> None:
    (folder / "d.sexp").write_text("(+ 1\n")
    (folder / "e.xml").write_text("<task>")
    (folder / "f.sexp").write_text('(deftask look (y) :description "{{y}}")')
    library = TaskLibrary()

    with pytest.raises(InvalidProgram) as caught:
        load_library(folder, library)

    places = {Path(problem.span.source.name).name for problem in caught.value.found}
    assert places == {"d.sexp", "e.xml", "b.weft"}, "f.sexp comes before sub/b.weft, which has the name again"
    assert len(library) == 0


def test_a_name_that_the_library_has_is_told_with_its_first_place(folder: Path) -> None:
    library = load_library(folder)

    with pytest.raises(InvalidProgram, match=r"'greet' is defined twice; first at .*a\.xml:1:1") as caught:
        load_library(folder / "a.xml", library)
    assert caught.value.found[0].code == "duplicate-name"


def test_definitions_are_templates_and_functions_and_no_calls(folder: Path) -> None:
    program = load_definitions([folder])

    assert [type(form).__name__ for form in program.forms] == ["Template", "Template", "Define"]


def test_a_file_named_twice_is_read_once(folder: Path) -> None:
    loaded, problems = load_files([folder / "a.xml", folder])

    assert (len(loaded), problems) == (2, [])


@pytest.mark.parametrize("name", ["none.sexp", "notes.txt", "empty", "x" * 300 + ".sexp"])
def test_what_cannot_be_read_is_a_problem(folder: Path, name: str) -> None:
    (folder / "empty").mkdir()
    path = folder / name

    _, problems = load_files([path])

    assert [problem.code for problem in problems] == ["unreadable-file"]
    assert problems[0].span.source.name == str(path)


def test_a_text_that_is_not_utf_8_is_a_problem_at_its_line() -> None:
    with pytest.raises(InvalidProgram, match=r"bad\.sexp:2: syntax-error: the text is not UTF-8"):
        read_bytes(b'1\n"\xff"', "bad.sexp")


@pytest.mark.parametrize(
    "text", ["<call template='f'/>", " \n<call template='f'/>", "\ufeff<call template='f'/>"]
)
def test_a_text_that_begins_with_markup_is_xml(text: str) -> None:
    assert read_text(text, "<test>").forms == (FunctionCall(func_name="f"),)


def test_half_a_surrogate_pair_is_refused_and_no_crash() -> None:
    with pytest.raises(InvalidProgram):
        read_text('"\ud800"', "<test>")


def test_an_unknown_task_is_told_without_quotes() -> None:
    with pytest.raises(KeyError) as caught:
        TaskLibrary().get_task("nope")

    assert str(caught.value) == "task 'nope' is not in the library"
