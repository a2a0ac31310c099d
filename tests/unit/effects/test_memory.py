"""Memory that orders by meaning: the real model, the project's index, all the ways that ask it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import weft
from tests.embedded_model import require
from weft.config.settings import read_project
from weft.effects.local import LocalEffects
from weft.errors import WeftError
from weft.evaluator.effects import ContextQuery, Step, ToolCall

QUERY = ContextQuery(query="quota of animals")
FILES = {
    "steel.md": "quota quota quota of exported steel in tons\n",
    "pets.md": "cats and dogs: the quota, and once more the quota\n",
} | {f"stable{n}.md": f"horses in stable {n} and what is their quota\n" for n in range(6)}
"""By words steel comes first; it is farthest from what is asked."""


@pytest.fixture
def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project that ranks by meaning, which is also the working folder."""
    require("minilm")
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "weft.toml").write_text('[memory]\nembeddings = "local:minilm"\n')
    monkeypatch.delenv("WEFT_DB", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kept(folder: Path) -> list[tuple[str, int]]:
    """Which models vectors are kept of, and how many."""
    with closing(sqlite3.connect(folder / ".weft" / "index.db")) as store:
        return store.execute("SELECT embedder, count(*) FROM memory_vectors GROUP BY embedder").fetchall()


async def test_every_way_to_ask_orders_by_meaning_and_each_chunk_is_embedded_once(farm: Path) -> None:
    call = ToolCall(tool="system:get_context", arguments={"query": QUERY.query})
    effects = LocalEffects()

    found = await effects.get_context(Step("1", QUERY), QUERY)
    by_form = await weft.evaluate_async(f'(get-context :query "{QUERY.query}")', effects=effects)
    by_tool = await effects.call_tool(Step("2", call), call)
    await effects.close()

    assert found == by_form == by_tool
    paths = [item["source_path"] for item in found["matches"]]
    assert paths[:2] == ["pets.md", "steel.md"]
    assert set(FILES) <= set(paths)
    [(model, count)] = kept(farm)
    assert model.startswith("local:all-minilm-l6-v2 ")
    assert count == len(found["matches"])


async def test_without_the_setting_words_alone_decide_and_nothing_is_embedded(farm: Path) -> None:
    (farm / "weft.toml").unlink()
    effects = LocalEffects()

    found = await effects.get_context(Step("1", QUERY), QUERY)
    await effects.close()

    assert [item["source_path"] for item in found["matches"]][:2] == ["steel.md", "pets.md"]
    assert kept(farm) == []


@pytest.mark.parametrize(
    ("name", "message"),
    [("smollm2", "cannot make embeddings; use all-minilm-l6-v2"), ("no-such", "there is no embedded model")],
)
async def test_a_model_that_cannot_embed_is_told(farm: Path, name: str, message: str) -> None:
    (farm / "weft.toml").write_text(f'[memory]\nembeddings = "local:{name}"\n')
    effects = LocalEffects()

    found = await effects.get_context(Step("1", QUERY), QUERY)
    await effects.close()

    assert message in found["error"]


def test_only_an_embedded_model_can_be_set(farm: Path) -> None:
    (farm / "weft.toml").write_text('[memory]\nembeddings = "openai:text-embedding-3-small"\n')

    with pytest.raises(
        WeftError, match=r"weft.toml: \[memory\] embeddings: 'openai:.*is not an embedded model"
    ):
        read_project(farm)
