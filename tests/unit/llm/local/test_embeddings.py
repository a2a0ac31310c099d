"""The real embedding model: what it makes of texts, and what it refuses."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tests.embedded_model import MINILM, SMOLLM2, require
from tests.tiny_bert import likeness, normal
from weft.llm.errors import ContextTooLong, ModelError
from weft.llm.local.catalogue import file_of, find_entry
from weft.llm.local.embeddings import TEXTS_AT_ONCE, EmbeddingModel
from weft.llm.local.models import EmbeddedModels

FOOD = "A man is eating food."
REFERENCE = [0.0332, 0.0044, -0.0063, 0.0484, -0.1387, -0.0336, 0.1011, -0.0544]
"""The first numbers of its vector, computed from the published weights in floats of 32 bits."""


@pytest.fixture
async def minilm() -> EmbeddingModel:
    """Load the model once; it stays in memory."""
    require("minilm")
    return await EmbeddedModels().find_embedding(MINILM)


async def test_texts_that_mean_the_like_are_near(minilm: EmbeddingModel) -> None:
    made = await minilm.embed([FOOD, "Someone has his dinner.", "The stock market fell sharply."])

    food, dinner, market = made.vectors
    assert likeness(food, dinner) > 0.4 > 0.2 > likeness(food, market)
    assert likeness(food, food) == pytest.approx(1, abs=1e-5)
    assert len(food) == minilm.dimensions == 384
    assert likeness(normal(food[:8]), normal(REFERENCE)) > 0.99
    assert food[:8] == pytest.approx(REFERENCE, abs=0.01)


async def test_vectors_come_in_the_order_of_their_texts_however_many_there_are(
    minilm: EmbeddingModel,
) -> None:
    texts = [f"Text number {number}." for number in range(2 * TEXTS_AT_ONCE + 1)]

    many = await minilm.embed(texts)

    assert len(many.vectors) == len(texts)
    for place in (0, TEXTS_AT_ONCE, 2 * TEXTS_AT_ONCE):
        alone = await minilm.embed([texts[place]])
        assert likeness(alone.vectors[0], many.vectors[place]) == pytest.approx(1, abs=1e-4)
    assert await minilm.embed([]) == type(many)([], 0)
    assert len((await minilm.embed(["", "a letter: é", "a\0b"])).vectors) == 3


async def test_a_text_that_is_too_long_is_named_or_cut(minilm: EmbeddingModel) -> None:
    long = "word " * 600

    with pytest.raises(ContextTooLong, match="text 2 has 602 tokens; all-minilm-l6-v2 reads at most 512"):
        await minilm.embed([FOOD, long])

    for too_few in (-1, 0, 2):
        with pytest.raises(ValueError, match=f"max_tokens is {too_few}; the minimum is 3"):
            await minilm.embed([long], max_tokens=too_few)
    cut = await minilm.embed([long], max_tokens=18)
    assert cut.input_tokens == 18
    assert cut.vectors == (await minilm.embed(["word " * 16])).vectors


async def test_a_call_that_is_cancelled_lets_the_next_one_in(
    minilm: EmbeddingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, begun = minilm._runtime._process, asyncio.Event()
    assert process is not None
    post = process.post

    async def told(address: str, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        if address == "/v1/embeddings":
            begun.set()
        return await post(address, bodies)

    monkeypatch.setattr(process, "post", told)
    running = asyncio.create_task(minilm.embed(["word " * 500] * 200))
    await begun.wait()
    waiting = asyncio.create_task(minilm.embed(["never"]))
    await asyncio.sleep(0)

    waiting.cancel()
    running.cancel()

    assert (await minilm.embed([FOOD])).vectors
    assert running.cancelled()
    assert waiting.cancelled()
    assert minilm._runtime._process is process


async def test_other_threads_use_the_same_process(minilm: EmbeddingModel) -> None:
    found: list[tuple[object, list[list[float]]]] = []

    async def use() -> None:
        model = await EmbeddedModels().find_embedding("minilm")
        found.append((model._runtime, (await model.embed([FOOD])).vectors))

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)

    assert found == [(minilm._runtime, (await minilm.embed([FOOD])).vectors)] * 3


async def test_a_model_of_the_other_kind_is_refused_before_it_is_loaded_or_fetched() -> None:
    fetched: list[str] = []
    models = EmbeddedModels(fetch=lambda entry, stop: fetched.append(entry.name))
    text = file_of(find_entry(SMOLLM2.removeprefix("local:")))
    vectors = file_of(find_entry("minilm"))

    for name in ("smollm2", "local:qwen", f"local:{text}"):
        with pytest.raises(
            ModelError, match="generates text and cannot make embeddings; use all-minilm-l6-v2"
        ):
            await models.find_embedding(name)
    for name in ("minilm", f"local:{vectors}"):
        with pytest.raises(ModelError, match="makes embeddings and cannot generate text"):
            await models.find(name)
    assert fetched == []


async def test_auto_is_the_model_that_makes_embeddings() -> None:
    require("minilm")

    assert (await EmbeddedModels().find_embedding()).id == MINILM
