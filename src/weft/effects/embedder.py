"""An embedder for memory that uses an embedded model."""

import asyncio
import threading
from collections.abc import Sequence

from weft.llm.local.catalogue import sha256_of
from weft.llm.local.embeddings import EmbeddingModel
from weft.llm.local.models import EmbeddedModels, Fetch

MAX_TOKENS = 128
"""Most tokens read of a text: the length the model was trained on; more would only take longer."""


class LocalEmbedder:
    """The embedder `local:NAME`, loaded on first use. Threads may share it."""

    def __init__(self, name: str, fetch: Fetch | None = None) -> None:
        """Initialize; `fetch` downloads a missing model; without it, a missing model is an error."""
        self._name = name
        self._models = EmbeddedModels(fetch=fetch)
        self._lock = threading.Lock()
        self._found: tuple[EmbeddingModel, str] | None = None

    @property
    def id(self) -> str:
        """Return the model name with the hash of its weights and the token limit."""
        return self._loaded()[1]

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector for the first tokens of each text; raise ModelError."""
        model, _ = self._loaded()
        return asyncio.run(model.embed(texts, max_tokens=MAX_TOKENS)).vectors

    def _loaded(self) -> tuple[EmbeddingModel, str]:
        with self._lock:
            if self._found is None:
                model = asyncio.run(self._models.find_embedding(self._name))
                self._found = model, f"{model.id} {sha256_of(model.path)[:16]} {MAX_TOKENS}"
            return self._found
