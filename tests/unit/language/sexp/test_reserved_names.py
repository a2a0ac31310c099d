"""The names that no program may bind are those of the language's page."""

import re
from pathlib import Path

from weft.language.sexp.program import SPECIAL_FORMS

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "language.md").read_text()


def words_between(start: str, end: str) -> set[str]:
    """Return the words in backquotes in a part of the page."""
    part = PAGE.split(start, 1)[1].split(end, 1)[0]
    return {word for code in re.findall(r"`([^`]+)`", part) for word in code.split()}


def test_special_forms_are_those_of_the_page() -> None:
    assert words_between("\nForms: ", "Everything else is a call") == set(SPECIAL_FORMS)
