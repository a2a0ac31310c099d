"""The OpenAI protocol of embeddings: requests read, vectors written."""

import base64
import struct
from typing import Any, Literal

import msgspec
from msgspec import Struct

from weft.llm.local.embeddings import Embeddings
from weft.llm.local.openai_wire import InvalidChatRequest

MAX_TEXTS = 2_048
"""As many as OpenAI takes in one request."""


class EmbeddingRequest(Struct):
    """`POST /v1/embeddings`; what is not here is not looked at."""

    input: str | list[str]
    """Texts; tokens are those of another model's tokenizer, and are refused."""
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None

    @property
    def texts(self) -> list[str]:
        """What is to be embedded."""
        return [self.input] if isinstance(self.input, str) else self.input


def read_request(body: bytes, dimensions: int) -> EmbeddingRequest:
    """The request to a model whose vectors have so many dimensions; raises InvalidChatRequest."""
    try:
        request = msgspec.json.decode(body, type=EmbeddingRequest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidChatRequest(f"the request cannot be read: {error}") from error
    if not 0 < len(request.texts) <= MAX_TEXTS:
        raise InvalidChatRequest(f"input: from 1 to {MAX_TEXTS} texts can be embedded at once")
    if request.dimensions not in (None, dimensions):
        raise InvalidChatRequest(f"dimensions: this model's vectors have {dimensions}")
    return request


def answer(made: Embeddings, request: EmbeddingRequest, *, model: str) -> dict[str, Any]:
    """The vectors, in the order of the texts."""
    is_text = request.encoding_format == "base64"
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(vector) if is_text else vector}
        for index, vector in enumerate(made.vectors)
    ]
    usage = {"prompt_tokens": made.input_tokens, "total_tokens": made.input_tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _base64(vector: list[float]) -> str:
    """The vector as the protocol wants it: floats of 32 bits, the low byte first."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
