"""Embeddings by a sentence model in ONNX form. Needs the packages onnxruntime, tokenizers and numpy."""

import hashlib
import threading
from collections.abc import Sequence
from pathlib import Path

MAX_TOKENS = 128
"""Of a text; the model was trained on as many, and twice as many take twice the time."""

BATCH = 8


class OnnxEmbedder:
    """A model and its tokenizer, loaded once. Threads may share it; they wait for each other."""

    def __init__(self, model: Path, tokenizer: Path) -> None:
        import onnxruntime  # a large dependency that nothing else needs
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()
        self._session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        self._inputs = {each.name for each in self._session.get_inputs()}
        self._lock = threading.Lock()
        digest = hashlib.sha256(model.read_bytes() + tokenizer.read_bytes()).hexdigest()
        self._id = f"onnx-{digest[:16]}-{MAX_TOKENS}"
        self._dimensions = int(self._session.get_outputs()[0].shape[-1])

    @property
    def id(self) -> str:
        """The hash of the model: other weights are another model."""
        return self._id

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """A vector of length one for each text."""
        vectors: dict[int, list[float]] = {}
        # Texts of like length together: a batch is as long as its longest.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        with self._lock:
            for start in range(0, len(order), BATCH):
                batch = order[start : start + BATCH]
                vectors |= zip(batch, self._batch([texts[number] for number in batch]), strict=True)
        return [vectors[number] for number in range(len(texts))]

    def _batch(self, texts: list[str]) -> list[list[float]]:
        """The mean of the words' vectors, as the model is meant to be used."""
        import numpy as np

        encoded = self._tokenizer.encode_batch(texts)
        given = {
            "input_ids": np.array([each.ids for each in encoded], np.int64),
            "attention_mask": np.array([each.attention_mask for each in encoded], np.int64),
            "token_type_ids": np.array([each.type_ids for each in encoded], np.int64),
        }
        words = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        mask = given["attention_mask"][:, :, None]
        means = (words * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        lengths = np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        found: list[list[float]] = (means / lengths).tolist()
        return found
