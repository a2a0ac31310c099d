"""A model that turns texts into vectors, which are near each other when the texts mean the like."""

import base64
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from weft.llm.errors import ContextTooLong
from weft.llm.local.runtime import Runtime
from weft.llm.local.store import LocalFile

TEXTS_AT_ONCE = 8
"""Texts that are embedded in one turn: whoever else waits comes in between."""

MIN_TOKENS = 3
"""Of a text that is cut: one of its own between the two that the model sets at its ends."""


class Embeddings(Struct, frozen=True):
    """The vectors of some texts, each of length one, and how many tokens were read for them."""

    vectors: list[list[float]]
    input_tokens: int


class EmbeddingModel:
    """A loaded model. Calls come from any event loop or thread; their batches are answered in order."""

    def __init__(self, file: LocalFile, runtime: Runtime, *, dimensions: int) -> None:
        self._file = file
        self._runtime = runtime
        self.dimensions = dimensions

    @property
    def id(self) -> str:
        return self._file.id

    @property
    def path(self) -> Path:
        """Its file."""
        return self._file.path

    @property
    def context_window(self) -> int:
        """How many tokens a text may have, with those that the model sets at its ends."""
        return self._runtime.settings.context_window

    async def embed(self, texts: Sequence[str], *, max_tokens: int | None = None) -> Embeddings:
        """A vector for each text. A text of more than `max_tokens` is cut; without, it must fit the window.

        Raises ContextTooLong, ModelError, and ValueError for a `max_tokens` below three. Cancelling it stops
        the model after the text that it reads.
        """
        if max_tokens is not None and max_tokens < MIN_TOKENS:
            raise ValueError(
                f"max_tokens is {max_tokens}; a text has at least {MIN_TOKENS} with its two ends"
            )
        texts = [text.encode("utf-8", "replace").decode() for text in texts]  # halves of letters are none
        vectors: list[list[float]] = []
        tokens = 0
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            inputs = await self._fitting(texts[start : start + TEXTS_AT_ONCE], start, max_tokens)
            answer = await self._runtime.embeddings(inputs)
            vectors += (_vector(row) for row in sorted(answer["data"], key=lambda row: row["index"]))
            tokens += answer["usage"]["prompt_tokens"]
        return Embeddings(vectors, tokens)

    async def _fitting(
        self, texts: Sequence[str], start: int, max_tokens: int | None
    ) -> list[str | list[int]]:
        """The texts; of those that may be too long or hold marks their tokens, as many as fit."""
        limit = min(self.context_window if max_tokens is None else max_tokens, self.context_window)
        inputs: list[str | list[int]] = list(texts)
        places = [place for place, text in enumerate(texts) if not _is_plain(text, limit)]
        counted = await self._runtime.tokens_of([texts[place] for place in places]) if places else []
        for place, tokens in zip(places, counted, strict=True):
            if len(tokens) > limit and max_tokens is None:
                message = f"text {start + place + 1} has {len(tokens)} tokens"
                raise ContextTooLong("llm_error", f"{message}; {self._file.name} reads {limit} at once")
            # The last one is the mark of the end.
            inputs[place] = tokens if len(tokens) <= limit else [*tokens[: limit - 1], tokens[-1]]
        return inputs


def _vector(row: dict[str, Any]) -> list[float]:
    return array("f", base64.b64decode(row["embedding"])).tolist()


def _is_plain(text: str, limit: int) -> bool:
    """Whether the runtime can be given the text as it is: it fits, and has no `[SEP]`, `</s>` or the like.

    A token has a byte at least, but for what a model adds at the ends, or takes letters apart into.
    """
    return 2 * len(text.encode()) <= limit and "[" not in text and "<" not in text
