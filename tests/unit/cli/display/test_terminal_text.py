"""Text for terminals."""

import re
from pathlib import Path

import pytest

import weft.cli
from weft.cli.display.output import escape_json, headline, printable_lines
from weft.cli.invoke import clean, echo, styled

ERROR = "a.sexp:1:2: task-failed: it\x1b[2J broke\n  (ask)\n   ^"


def test_a_text_of_several_lines_keeps_them_and_none_begins_where_ours_do() -> None:
    assert printable_lines(ERROR) == "a.sexp:1:2: task-failed: it\\x1b[2J broke\n    (ask)\n     ^"
    assert printable_lines("") == ""


def test_the_headline_of_an_error_is_its_first_line() -> None:
    assert headline(ERROR, width=20) == "a.sexp:1:2: task-fa…"
    assert headline("\n", width=9) == ""


@pytest.mark.parametrize(
    "control", ["\x1b]52;c;aGk=\x07", "\x1b[2J", "\x9b2J", "\x7f", "\b", "\r", "\u202e", "\u2066", "\u200f"]
)
def test_control_characters_are_escaped_and_the_rest_stays(control: str) -> None:
    shown = clean(f"a\tb\nc{control}d é 漢 👩\u200d💻")

    assert shown.startswith("a\tb\nc\\")
    assert shown.endswith("d é 漢 👩\u200d💻")
    assert all(one in "\n\t\u200d" or one.isprintable() for one in shown)


def test_line_breaks_of_windows_are_line_breaks() -> None:
    assert clean("a\r\nb") == "a\nb"


def test_only_own_colours_are_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    assert styled("\x1b[2Jname", fg="red") == "\x1b[31m\\x1b[2Jname\x1b[0m"
    echo(styled("a\x9b", fg="red"), "\x1b[31mb")

    assert capsys.readouterr().out == "a\\x9b\\x1b[31mb\n"  # no terminal: colours are left out


def test_json_holds_no_control_characters() -> None:
    text = '"é \x7f \x80\x9f \u061c\u200e\u200f\u202a\u202e\u2066\u2069 \u200d"'

    assert escape_json(text.encode()).decode() == (
        '"é \\u007f \\u0080\\u009f \\u061c\\u200e\\u200f\\u202a\\u202e\\u2066\\u2069 \u200d"'
    )


def test_commands_print_through_one_border() -> None:
    folder = Path(weft.cli.__file__).parent
    direct = re.compile(r"click\.(secho|echo)\(|(?<![\w.])print\(|std(out|err)\.(buffer\.)?write\(")
    found = {file.name for file in folder.rglob("*.py") if direct.search(file.read_text())}

    # `index_progress` writes a line of its own that it takes away again; `output` bytes that it has cleaned.
    assert found == {"invoke.py", "output.py", "index_progress.py"}
