"""The real small embedded model, for tests."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.llm.local.catalogue import find_entry, is_present, models_folder
from weft.llm.local.models import EmbeddedModel, EmbeddedModels
from weft.llm.payload import HandlerPayload, PayloadMetadata, UserMessage

SMOLLM2 = "local:smollm2-135m"
MINILM = "local:all-minilm-l6-v2"
QWEN = "local:qwen2.5-coder-1.5b"


def require(name: str) -> None:
    """Fail when an embedded model is not here: tests do not use the network."""
    entry = find_entry(name)
    assert is_present(entry), (
        f"{entry.name} is not in {models_folder()}: scripts/environment fetches what tests need, "
        f"or weft models pull {entry.aliases[0]}"
    )


@contextmanager
def loaded(name: str) -> Iterator[EmbeddedModel]:
    """Keep a model in memory while the block runs."""
    require(name)
    models = EmbeddedModels()
    model = asyncio.run(models.find(name))
    yield model
    asyncio.run(models.close())


def ask(text: str, *, max_tokens: int = 24, system: str = "Be short.", **settings: Any) -> HandlerPayload:
    """Return a payload with one message."""
    return HandlerPayload(
        system_prompt=system,
        messages=(UserMessage(text),),
        metadata=PayloadMetadata(model=SMOLLM2, max_tokens=max_tokens),
        **settings,
    )
