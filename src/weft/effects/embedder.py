"""What memory orders by meaning with: an embedded model, as an embedder."""

import asyncio
import threading
from collections.abc import Sequence

from weft.llm.local.catalogue import sha256_of
from weft.llm.local.embeddings import EmbeddingModel
from weft.llm.local.models import EmbeddedModels, Fetch

MAX_TOKENS = 128
"""Of a text: the model of the catalogue was trained on as many, and twice as many take twice the time."""


class LocalEmbedder:
    """The embedder `local:NAME`, which is loaded when the first text comes. Threads may share it."""

    def __init__(self, name: str, fetch: Fetch | None = None) -> None:
        """`fetch` brings a model that is not here; without it that is an error which says how to get it."""
        self._name = name
        self._models = EmbeddedModels(fetch=fetch)
        self._lock = threading.Lock()
        self._found: tuple[EmbeddingModel, str] | None = None

    @property
    def id(self) -> str:
        """The model and its hash: other weights are another model."""
        return self._loaded()[1]

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector of length one for each text, of which the beginning is read. Raises ModelError."""
        model, _ = self._loaded()
        return asyncio.run(model.embed(texts, max_tokens=MAX_TOKENS)).vectors

    def _loaded(self) -> tuple[EmbeddingModel, str]:
        with self._lock:
            if self._found is None:
                model = asyncio.run(self._models.find_embedding(self._name))
                self._found = model, f"{model.id} {sha256_of(model.path)[:16]} {MAX_TOKENS}"
            return self._found
