"""What of an answer has been handed to who listens."""

import re

from weft.llm.protocol import OnText

MOST_CHARACTERS_PER_TOKEN = 16
"""No answer has longer tokens on average. A stream that has, for the tokens it may have, does not end."""

MOST_CHARACTERS = 1_000_000
"""Of an answer that was asked for without a bound: twice as many as the longest of known models have, 128,000
tokens. Joining the pieces of an endless one takes time that grows with the square of its length."""

_BAD = re.compile("[\x00\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The text without what files, databases and terminals refuse: NULs and halves of surrogate pairs."""
    return _BAD.sub("\ufffd", text)


class Delivery:
    """Hands pieces on, and remembers them."""

    def __init__(self, on_text: OnText | None, max_tokens: int | None = None) -> None:
        self.on_text = on_text
        self.pieces: list[str] = []
        self.failure: Exception | None = None
        """What the listener raised."""
        self._most = MOST_CHARACTERS if max_tokens is None else max_tokens * MOST_CHARACTERS_PER_TOKEN
        self._room = self._most

    def begin(self) -> None:
        """Begin to count anew: the request is made, perhaps again."""
        self._room = self._most

    @property
    def text(self) -> str | None:
        return "".join(self.pieces) or None

    @property
    def is_full(self) -> bool:
        """Whether more has come than the answer can have."""
        return self._room <= 0

    def deliver(self, piece: str) -> None:
        """Hand a piece of a stream on, as far as the answer can have it."""
        self.count(piece)
        if self._room < 0:
            piece = piece[: self._room]
        self.hand_on(piece)

    def hand_on(self, piece: str) -> None:
        """Hand a text on as it is."""
        if self.on_text is not None and piece:
            piece = clean_text(piece)
            self.pieces.append(piece)
            try:
                self.on_text(piece)
            except Exception as error:
                self.failure = error
                raise

    def count(self, piece: str) -> None:
        """Count what is part of the answer, and not handed on: thoughts, arguments of tools."""
        self._room -= len(piece)
