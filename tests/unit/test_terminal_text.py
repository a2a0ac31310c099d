"""Text for terminals."""

from weft.cli.text import headline, printable_lines

ERROR = "a.sexp:1:2: task-failed: it\x1b[2J broke\n  (ask)\n   ^"


def test_a_text_of_several_lines_keeps_them_and_none_begins_where_ours_do() -> None:
    assert printable_lines(ERROR) == "a.sexp:1:2: task-failed: it\\x1b[2J broke\n    (ask)\n     ^"
    assert printable_lines("") == ""


def test_the_headline_of_an_error_is_its_first_line() -> None:
    assert headline(ERROR, width=20) == "a.sexp:1:2: task-fa…"
    assert headline("\n", width=9) == ""
