"""How constants are printed."""

import math

from weft.language.problems import refuse
from weft.language.sexp.strings import SURROGATE, escape
from weft.language.spans import NOWHERE
from weft.language.tree import Scalar

_SHORT = 60
"""A string up to this length stays on one line, its line breaks escaped."""


def scalar_text(value: Scalar) -> str:
    """A constant as it is written; raises InvalidProgram for what no program can say."""
    match value:
        case None:
            return "nil"
        case bool():
            return "true" if value else "false"
        case str():
            return string_text(value)
        case _:
            return number_text(value)


def string_text(text: str) -> str:
    """A string in quotes; a long one of several lines keeps them, so that a prompt can be read."""
    if SURROGATE.search(text):
        raise refuse(NOWHERE, "bad-value", "half of a surrogate pair is no character and cannot be printed")
    return escape(text, keeps_lines=len(text) > _SHORT)


def number_text(value: float) -> str:
    """A number as in JSON."""
    if isinstance(value, int):
        try:
            return str(value)
        except ValueError as error:  # more digits than Python turns into text
            raise refuse(NOWHERE, "bad-value", "an integer is too long to be printed") from error
    if not math.isfinite(value):
        raise refuse(NOWHERE, "bad-value", f"{value} is no number of the language and cannot be printed")
    return repr(value)


def seconds_text(seconds: float) -> str:
    """A duration; whole seconds without a point."""
    return number_text(int(seconds) if seconds == int(seconds) and seconds < 1e15 else seconds)
