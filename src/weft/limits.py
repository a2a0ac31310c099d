"""What weft accepts: limits on input and values, each with its reason, and clean text; how retries wait.

Text is cleaned at the borders: files, processes, models and callers may send what no store can hold.
Whatever has passed a border is trusted: it has no lone surrogates, and no NUL where C strings or PostgreSQL
end at one.
"""

import re
from typing import Annotated

from msgspec import Meta, Struct

MAX_JSON_BYTES = 512 * 1024 * 1024
"""Largest JSON text that is read: large enough for a flow of a million tasks."""

MAX_JSON_DEPTH = 200
"""Deepest nesting of a field's value. JSON parsers fail at a depth that depends on the stack they already
use, so a value near that limit could be stored and never be read again."""

MAX_SHOWN_CHARACTERS = 200
"""How much of an invalid value an error message quotes: enough to recognise it."""

MAX_NESTED_DEPTH = 200
"""Deepest tree that is written in the nested form; JSON parsers fail at a few hundred levels. A deeper tree
is written as an equivalent flat list."""

MAX_NAME_CHARACTERS = 255
"""Longest name of a task, from the specification."""

MAX_SUGGESTION_WORDS = 10_000
"""How many known words are searched for a suggestion; each costs microseconds."""

MAX_SUGGESTIONS = 20
"""How many wrong names of one flow get a suggestion; thousands would take minutes."""

MAX_COUNT = 2**63 - 1
"""Largest count, such as the runs of a schedule: the largest value of a store's integer column."""

MAX_ANSWER_CHARACTERS = 1024 * 1024
"""Longest answer of a person to a question: large enough for a pasted file."""

MAX_PROGRAM_CHARACTERS = 16 * 1024 * 1024
"""Longest program that is read: far more than a library of a thousand templates."""

MAX_PROGRAM_DEPTH = 1_000
"""Deepest nesting of a program: far beyond what a person writes, and safe for every traversal of the tree."""

MAX_TASK_DEPTH = 200
"""Deepest nesting of tasks inside tasks, and of templates that call templates: each level is a record and a
few waiting coroutines, and a template that calls itself must end."""

MAX_VALUE_SIZE = 10_000_000
"""Most elements of a list, characters of a string, or parts of a value of a program: 80 MB of memory, so that
a value that keeps doubling fails before it uses all memory."""

MAX_WALKED_PARTS = 2_000_000
"""Most parts of a value that are compared or flattened: a second of work. A list that holds the same list
twice, sixty levels deep, is small in memory and practically endless."""

MAX_INTEGER_BITS = 14_000
"""Largest integer of a program, about 4,200 digits: Python's limit for printing and parsing integers."""

SURROGATE = re.compile("[\ud800-\udfff]")
"""Half a character: never valid alone, and never encodable. Python uses it for bytes that are not UTF-8."""

NulFree = Annotated[str, Meta(pattern=r"^[^\x00]*$")]
"""A word of a command line or of an environment: NUL ends C strings."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Replace NUL and lone surrogates by U+FFFD."""
    return text if is_storable(text) else _UNSTORABLE.sub("\ufffd", text)


def decode_text(content: bytes | bytearray) -> str:
    """Decode UTF-8; bytes that are not UTF-8 become U+FFFD."""
    return content.decode("utf-8", "replace")


def is_storable(text: str) -> bool:
    """Return whether every store can hold the text: it has no NUL and no lone surrogate."""
    return "\x00" not in text and is_unicode(text)


def is_unicode(text: str) -> bool:
    """Return whether the text has no lone surrogate, and thus can be encoded."""
    return text.isascii() or SURROGATE.search(text) is None


class Backoff(Struct, frozen=True, kw_only=True):
    """How often something is attempted, and how long to wait in between. Every retry policy is one."""

    attempts: int = MAX_COUNT
    """Maximum number of attempts, the first one included."""
    delay: float
    """Seconds before the second attempt."""
    factor: float = 2.0
    """Factor by which the delay grows with each further attempt."""
    jitter: float = 0.0
    """Fraction by which delays vary at random, up or down."""
    cap: float
    """Maximum delay in seconds, before jitter."""

    def delay_after(self, failures: int, chance: float = 0.5) -> float:
        """Return the seconds to wait after that many failures; `chance` is random, from 0 to 1."""
        # The exponent is bounded so that a large count cannot overflow a float.
        grown = self.delay * self.factor ** min(failures - 1, 60)
        return min(grown, self.cap) * (1.0 + self.jitter * (2.0 * chance - 1.0))
