"""Small texts: names, white space, and how much of an offending value a message repeats."""

import re
import textwrap

from weft.language.expressions import tokens

MAX_SHOWN = 60
"""How much of an offending word a message repeats, and compares with known ones: comparing is quadratic."""

BLANK = " \t\r\n"
"""What XML calls white space; Python's strip takes more."""

IDENTIFIER = re.compile(r"[^\W\d]\w*")
NAME = re.compile(r"[^\W\d]\w*(?:-\w+)*")
TEMPLATE_NAME = re.compile(r"[^\W\d]\w*(?:[-:]\w+)*")
"""May have a namespace: `user:generate-plan`."""
CALLED = re.compile(rf"{tokens.NAME.pattern}|[-+*/=<>]|[!<>]=")
"""Names of templates, of tools (`system:read_files`), of built-ins (`string-append`, `has-key?`, `+`)."""

LETTERS = {
    IDENTIFIER: "letters, digits and _",
    NAME: "letters, digits, _ and -",
    TEMPLATE_NAME: "letters, digits, _, - and :",
    CALLED: "letters, digits, _ and -",
}
"""What each of them is made of, for messages."""

LITERALS = frozenset({"true", "false", "nil", "null"})
"""Words that are values, so no names."""

_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")


def shown(word: str) -> str:
    """The word as a message repeats it."""
    return word if len(word) <= MAX_SHOWN else word[:MAX_SHOWN] + "..."


def dedented(text: str) -> str:
    """The text without the indentation its lines share, and without blank space around it.

    The first line begins beside the tag, so it has no say in what is shared. Tabs stay tabs.
    """
    first, newline, rest = text.partition("\n")
    return _BLANK_LINES.sub("", first.lstrip(BLANK) + newline + textwrap.dedent(rest)).rstrip(BLANK)
