"""What a session reads: one input after the other, whole ones."""

import sys
from collections.abc import Iterator

from weft.language.sexp.reader import read_data
from weft.language.spans import Source


def is_whole(text: str) -> bool:
    """Whether an input can be taken as it is: nothing is begun and not ended, or more text would not help."""
    if text.lstrip().startswith(","):
        return True
    reading = read_data(Source("<repl>", text))
    return not reading.is_open or len(reading.problems) > 1


class PlainInput:
    """Inputs from a pipe or a file; what is begun at its end is an input too, and will be refused."""

    def __iter__(self) -> Iterator[str]:
        if sys.stdin is None:
            return
        text = ""
        for line in sys.stdin.buffer:
            # Bytes that are no UTF-8 become halves of surrogate pairs, which the reader refuses.
            text += line.decode("utf-8", "surrogateescape")
            if is_whole(text):
                yield text
                text = ""
        if text.strip():
            yield text
