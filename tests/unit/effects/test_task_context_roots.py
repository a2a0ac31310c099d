"""What a task is given where memory looks in other roots than tools do."""

from pathlib import Path

import pytest

from tests.unit.effects.test_task_context import ask, fresh, given_paths, with_model
from weft import testing
from weft.evaluator.effects import ContextQuery, Files, Step, ToolCall


@pytest.fixture
def two_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Memory looks in `lib` only; tools in the whole shop, which has a file of the same relative path."""
    shop = tmp_path / "shop"
    (shop / "lib").mkdir(parents=True)
    (shop / "lib" / "prices.py").write_text("def rounded_price(amount):\n    return round(amount, 2)\n")
    (shop / "prices.py").write_text("other = 'not what was asked for'\n")
    (shop / "weft.toml").write_text('[memory]\nroots = ["lib"]\n[tools]\nroots = ["."]\n')
    monkeypatch.chdir(shop)
    return shop


async def test_a_described_file_is_the_one_that_memory_found(two_prices: Path) -> None:
    effects, model = with_model(two_prices, memory=testing.memory("lib"))

    result = await ask(effects, files=Files("description", text="rounded price"))

    assert given_paths(result)[0] == "lib/prices.py"
    assert "return round(amount, 2)" in (model.payloads[0].context or "")
    assert "not what was asked for" not in (model.payloads[0].context or "")


async def test_a_described_file_outside_the_roots_of_tools_is_read_in_those_of_memory(
    two_prices: Path, tmp_path: Path
) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "prices.py").write_text("def discounted(): pass\n")
    effects, model = with_model(two_prices, memory=testing.memory("lib", shelf))

    result = await ask(effects, files=Files("description", text="discounted"))

    assert given_paths(result) == [str(shelf / "prices.py")]
    assert "def discounted()" in (model.payloads[0].context or "")
    assert "warnings" not in result.notes


async def test_a_named_file_is_not_given_again_by_a_memory_of_another_root(two_prices: Path) -> None:
    effects, model = with_model(two_prices, memory=testing.memory("lib"))

    result = await ask(effects, context=fresh(), files=Files("literal", ("lib/prices.py",)))

    assert given_paths(result) == ["lib/prices.py"]
    assert (model.payloads[0].context or "").count("def rounded_price") == 1


async def test_a_path_of_an_answer_can_be_read_by_the_tools(two_prices: Path) -> None:
    effects, _ = with_model(two_prices, memory=testing.memory("lib"))
    query = ContextQuery(query="rounded price")
    found = await effects.get_context(Step("1", query), query)

    call = ToolCall(tool="system:read_files", arguments={"paths": [found["matches"][0]["source_path"]]})
    read = await effects.call_tool(Step("2", call), call)

    assert "return round(amount, 2)" in str(read)
    await effects.close()
