"""Lines of a source."""

import pytest

from weft.language.spans import Source


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["", "", ""]),
        ("a", ["a", "", ""]),
        ("a\n", ["a", "", ""]),
        ("a\nb\r\nc", ["a", "b", "c"]),
        ("\n\nc\n", ["", "", "c"]),
        ("form\ffeed\u2028\nb", ["form\ffeed\u2028", "b", ""]),
    ],
)
def test_a_line_is_what_stands_between_new_lines(text: str, lines: list[str]) -> None:
    assert [Source("s", text).line(number) for number in (1, 2, 3)] == lines
