"""The toolbox finds tools by exactly their names."""

import sys
from pathlib import Path
from typing import Any

import pytest

from weft.config.sections import ToolsSettings
from weft.effects.checks import SYSTEM_TOOLS
from weft.effects.tools import open_project_tools
from weft.evaluator.tools import ToolContext, ToolFailed
from weft.tools import functions
from weft.tools.functions import DuplicateTool, ToolRegistry
from weft.tools.system import SystemTool, get_context
from weft.tools.toolbox import open_toolbox


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> ToolRegistry:
    fresh = ToolRegistry()
    monkeypatch.setattr(functions, "registered", fresh)
    monkeypatch.setattr("weft.tools.toolbox.registered", fresh)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return fresh


def module_of(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text)
    return name


@pytest.mark.parametrize(
    "name",
    ["system_read_files", "\u0455ystem:read_files", "SYSTEM:read_files", "system:read_files ", "", "mcp:a:b"],
)
async def test_what_only_looks_like_a_name_is_no_tool(tmp_path: Path, name: str) -> None:
    toolbox = open_toolbox(ToolsSettings(), tmp_path, {})

    assert await toolbox.find("system:read_files") is not None
    assert await toolbox.find(name) is None


async def test_modules_are_imported_when_a_tool_is_needed(tmp_path: Path) -> None:
    name = module_of(
        tmp_path,
        "weft_test_shop",
        "import weft\n@weft.tool(name='shop:open')\ndef open_() -> bool:\n    return True\n",
    )
    toolbox = open_toolbox(ToolsSettings(modules=(name,)), tmp_path, {})
    assert name not in sys.modules

    try:
        assert await toolbox.find("system:write_file") is not None
        assert name not in sys.modules
        tool = await toolbox.find("shop:open")
        assert tool is not None
        assert await tool.call({}, ToolContext()) is True
        assert "shop:open" in toolbox.names()
    finally:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("text", ["raise RuntimeError('broken')", "import sys; sys.exit(1)", "def ("])
async def test_a_module_that_cannot_be_imported_is_said_to_who_asks(tmp_path: Path, text: str) -> None:
    name = module_of(tmp_path, "weft_test_broken", text)
    toolbox = open_toolbox(ToolsSettings(modules=(name,)), tmp_path, {})

    with pytest.raises(ToolFailed, match="module 'weft_test_broken' cannot be imported"):
        await toolbox.find("shop:open")
    assert await toolbox.find("system:read_files") is not None
    assert [one.source for one in await toolbox.listed() if one.error] == [name]


async def test_executors_are_tools_when_the_settings_list_them(tmp_path: Path) -> None:
    toolbox = open_project_tools(ToolsSettings(executors=("aggregate_results", "command")), tmp_path, {})

    tool = await toolbox.find("executor:command")
    assert tool is not None
    result = await tool.call({"argv": ["echo", "hi"]}, ToolContext())
    assert result["stdout"] == "hi\n"
    assert tool.has_effects
    assert "argv" in tool.definition.input_schema["properties"]
    with pytest.raises(ToolFailed, match="refuses its inputs"):
        await tool.call({"argv": []}, ToolContext())
    with pytest.raises(ToolFailed, match="exited with code 3"):
        await tool.call({"argv": ["sh", "-c", "exit 3"]}, ToolContext())
    assert await toolbox.find("executor:http") is None


async def test_an_executor_that_raises_anything_fails_as_a_tool(tmp_path: Path) -> None:
    from weft.effects.tools import executor_tools
    from weft.executors.registry import ExecutorRegistry

    registry = ExecutorRegistry()

    @registry.executor("odd")
    async def odd(inputs: dict[str, Any]) -> None:
        raise ValueError("odd")

    ((tool, _),) = executor_tools(("odd",), registry)

    with pytest.raises(ToolFailed, match="ValueError: odd"):
        await tool.call({}, ToolContext())


async def test_an_executor_that_is_not_there_is_said_to_who_asks(tmp_path: Path) -> None:
    toolbox = open_project_tools(ToolsSettings(executors=("htpp",)), tmp_path, {})

    with pytest.raises(ToolFailed, match="did you mean 'http'"):
        await toolbox.find("executor:htpp")
    (listed,) = [one for one in await toolbox.listed() if one.name == "executor:htpp"]
    assert "no executor" in (listed.error or "")


def test_a_tool_that_is_handed_in_cannot_take_the_place_of_another(tmp_path: Path) -> None:
    with pytest.raises(DuplicateTool):
        open_toolbox(ToolsSettings(), tmp_path, {}, extra=[(SystemTool(get_context), "mine")])


async def test_roots_are_relative_to_the_project(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a").write_text("one")
    toolbox = open_toolbox(ToolsSettings(roots=("docs",)), tmp_path, {})

    assert toolbox.roots.read("a").text == "one"


def test_what_is_checked_before_a_run_knows_every_system_tool(tmp_path: Path) -> None:
    names = open_toolbox(ToolsSettings(), tmp_path, {}).names()

    assert set(SYSTEM_TOOLS) == {name for name in names if name.startswith("system:")}
