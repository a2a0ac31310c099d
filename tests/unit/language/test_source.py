"""Lines of a source."""

import pytest

from weft.language.source import Source


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["", "", ""]),
        ("a", ["a", "", ""]),
        ("a\n", ["a", "", ""]),
        ("a\nb\r\nc", ["a", "b", "c"]),
        ("\n\nc\n", ["", "", "c"]),
        ("form\ffeed\u2028\nb", ["form", "feed", ""]),
        ("a\rb\r\nc\nd", ["a", "b", "c"]),
    ],
)
def test_a_line_is_one_of_splitlines(text: str, lines: list[str]) -> None:
    assert (text.splitlines() + [""] * 3)[:3] == lines
    assert [Source("s", text).line(number) for number in (1, 2, 3)] == lines
