"""Names and white space in XML, and the list of problems found so far."""

import re
import textwrap

from weft.language.cel.tokens import NAME as CEL_NAME

MAX_SHOWN = 60
"""Maximum length of a word in messages, and in comparisons with known words, which take quadratic time."""

BLANK = " \t\r\n"
"""White space as XML defines it; Python's `strip` removes more."""

IDENTIFIER = re.compile(r"[^\W\d]\w*")
NAME = re.compile(r"[^\W\d]\w*(?:-\w+)*")
TEMPLATE_NAME = re.compile(r"[^\W\d]\w*(?:[-:]\w+)*")
"""The name of a template, which may have a namespace: `user:generate-plan`."""
CALLED = re.compile(rf"{CEL_NAME.pattern}|[-+*/=<>]|[!<>]=")
"""The name of a template, a tool (`system:read_files`) or a built-in (`string-append`, `has-key?`, `+`)."""

LETTERS = {
    IDENTIFIER: "letters, digits and _",
    NAME: "letters, digits, _ and -",
    TEMPLATE_NAME: "letters, digits, _, - and :",
    CALLED: "letters, digits, _, -, : and a ? at the end",
}
"""Allowed characters of each pattern, for messages."""

LITERALS = frozenset({"true", "false", "nil", "null"})
"""Words that are values and cannot be names."""

_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")


def shown(word: str) -> str:
    """Truncate a word for a message."""
    return word if len(word) <= MAX_SHOWN else word[:MAX_SHOWN] + "..."


def dedent(text: str) -> str:
    """Remove the common indentation of the lines, and blank space around the text.

    The first line follows the tag, so its indentation does not count. Tabs stay tabs.
    """
    first, newline, others = text.partition("\n")
    return _BLANK_LINES.sub("", first.lstrip(BLANK) + newline + textwrap.dedent(others)).rstrip(BLANK)


MAX_FOUND = 100
"""Parsing stops after this many problems: a hostile document could have millions."""
