"""`weft check`: what is wrong with programs, all of it, at its place."""

import os
from pathlib import Path

import pytest

from tests.command_line import Ran, weft

GOOD = '(deftask look (x) :description "Look at {{x}}")\n(look "a")\n'


def check(*arguments: str | Path, stdin: str | bytes = b"") -> Ran:
    return weft("check", *arguments, db="unused", stdin=stdin)


def test_nothing_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text(GOOD)

    ran = check(tmp_path / "a.sexp")

    assert (ran.code, ran.out, ran.err) == (0, "", "1 file checked, no problems\n")


def test_problems_have_a_place_a_code_the_line_and_a_caret(tmp_path: Path) -> None:
    path = tmp_path / "a.sexp"
    path.write_text('(deftask look (x) :description "Look at {{y}} {{x}}")\n\t(lok "日本" nowhere)\n')

    ran = check(path)

    assert ran.code == 2
    assert f"{path}:1:43: unbound-name:" in ran.out
    lines = ran.out.splitlines()
    assert lines[-3].startswith(f"{path}:2:12: unbound-name:")
    assert lines[-2:] == ['   (lok "日本" nowhere)', "               ^"], "a wide character takes two columns"
    assert "did you mean 'look'?" in ran.out
    assert ran.err.endswith(" in 1 file\n")


def test_json_lists_every_problem(tmp_path: Path) -> None:
    path = tmp_path / "a.sexp"
    path.write_text("(+ 1\n")

    ran = check(path, "--json")

    assert ran.code == 2
    assert ran.json == {
        "problems": [
            {
                "file": str(path),
                "line": 1,
                "column": 1,
                "code": "syntax-error",
                "message": "this parenthesis is never closed",
            }
        ],
        "inputs": {},
    }
    (tmp_path / "a.sexp").write_text("1")
    assert check(path, "--json").json == {"problems": [], "inputs": {}}


def test_a_form_that_cannot_be_read_does_not_hide_the_others_and_makes_no_false_problems(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.sexp"
    path.write_text(
        '(deftask look (x) :instructions "{{x}}" :context (:inherit "full" :fresh "enabled"))\n'
        "(define found (look))\n"
        '(task :ref "look")\n'
        "(car found found)\n"
        "(lost)\n"
    )

    problems = check(path, "--json").json["problems"]

    assert [(one["line"], one["code"]) for one in problems] == [
        (1, "context-conflict"),
        (4, "wrong-arity"),
        (5, "unbound-name"),
    ]


def test_what_is_wrong_in_xml_does_not_hide_what_stands_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    path.write_text(
        '<program>\n<template name="look"><task><description>{{x</description></task></template>\n'
        '<call template="look"/>\n<call template="lost"/>\n</program>'
    )

    problems = check(path, "--json").json["problems"]

    assert [(one["line"], one["code"]) for one in problems] == [(2, "syntax-error"), (4, "unbound-name")]


def test_inputs_of_bare_tasks_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.sexp"
    path.write_text('(task :instructions "{{topic}} {{style}}")')

    ran = check(path)

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"{path}: inputs: topic, style\n1 file checked, no problems\n"
    assert check(path, "--json").json == {"problems": [], "inputs": {str(path): ["topic", "style"]}}


def test_templates_of_all_files_see_each_other(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text("(template twice (x) (look x) (look x))")
    (tmp_path / "b.xml").write_text(
        '<template name="look" params="x"><task><description>{{x}}</description></task></template>'
    )

    assert check(tmp_path).code == 0
    assert check(tmp_path / "b.xml", tmp_path / "a.sexp").code == 0
    alone = check(tmp_path / "a.sexp", "--json")
    assert {problem["code"] for problem in alone.json["problems"]} == {"unbound-name"}


def test_a_template_of_two_files_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text(GOOD)
    (tmp_path / "b.sexp").write_text(GOOD)

    (problem,) = check(tmp_path, "--json").json["problems"]

    assert (problem["code"], problem["file"]) == ("duplicate-name", str(tmp_path / "b.sexp"))


def test_a_file_that_cannot_be_read_does_not_hide_the_others_and_makes_no_false_problems(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.sexp").write_text('(deftask look (x) :description "{{x}}"')
    (tmp_path / "b.sexp").write_text('(look "a")\n(car 1 2)')

    found = check(tmp_path, "--json").json["problems"]

    assert [problem["code"] for problem in found] == ["syntax-error", "wrong-arity"]


def test_standard_input_is_guessed_or_told() -> None:
    assert check("-", stdin="(+ 1 2)").code == 0
    assert (
        check(
            "-",
            stdin="<call template='nowhere'/>",
        ).code
        == 2
    )
    assert "<stdin>:1:1: unbound-name" in check("-", stdin="(nowhere)").out
    assert check("-", "--format", "xml", stdin="(+ 1 2)").code == 2


@pytest.mark.parametrize("name", ["nowhere.sexp", "readme.txt", "empty"])
def test_what_is_no_program_is_a_problem(tmp_path: Path, name: str) -> None:
    (tmp_path / "readme.txt").write_text("x")
    (tmp_path / "empty").mkdir()

    ran = check(tmp_path / name)

    assert ran.code == 2
    assert ran.out.startswith(f"{tmp_path / name}:1: unreadable-file: ")


def test_many_problems_are_cut_for_people_and_not_for_machines(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text("\n".join(f"(car {number} 2)" for number in range(80)))

    assert "... and 30 more (--json lists all)" in check(tmp_path).out
    assert len(check(tmp_path, "--json").json["problems"]) == 80


def test_a_line_of_control_characters_is_shown_and_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.sexp").write_text('"\x1b[31m" (car 1 2)')

    out = check(tmp_path).out

    assert "\x1b" not in out
    assert '  "\\x1b[31m" (car 1 2)\n             ^' in out


def test_a_file_whose_name_is_no_utf_8_is_named_in_json(tmp_path: Path) -> None:
    path = os.fsdecode(bytes(tmp_path) + b"/\x9b31m.sexp")
    Path(path).write_text("(foo")

    ran = check("--json", path)

    assert ran.code == 2
    assert [problem["file"] for problem in ran.json["problems"]] == [path]
