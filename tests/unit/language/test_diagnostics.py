"""Names that are suggested are alike."""

import pytest

from weft.language.diagnostics import nearest, nearest_tool

TOOLS = ("system:list_directory", "system:read_files", "system:run_script", "mcp:shop:add", "shop:price")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("system:read_file", "system:read_files"),
        ("sytem:read_files", "system:read_files"),
        ("system:runscript", "system:run_script"),
        ("mcp:shp:add", "mcp:shop:add"),
        ("shop:prise", "shop:price"),
    ],
)
def test_a_tool_whose_name_is_alike_is_suggested(name: str, meant: str) -> None:
    assert nearest_tool(name, TOOLS) == f"; did you mean '{meant}'?"


@pytest.mark.parametrize("name", ["system:nosuch", "system:a", "mcp:shop:delete_everything", "system:"])
def test_a_tool_that_only_comes_from_the_same_place_is_not(name: str) -> None:
    assert nearest_tool(name, TOOLS) == ""


def test_an_unlike_name_is_not_suggested() -> None:
    assert nearest("plna", ["plan", "steps"]) == "; did you mean 'plan'?"
    assert nearest("zebra", ["plan", "steps"]) == ""
