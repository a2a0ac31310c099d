"""`weft tools`."""

import asyncio
from typing import TYPE_CHECKING

import click

from weft.cli.display.output import print_json, print_table, printable
from weft.cli.invoke import say
from weft.cli.options import json_option

if TYPE_CHECKING:
    from weft.tools.toolbox import ListedTool


@click.command()
@click.option("--connect", "is_connecting", is_flag=True, help="Start MCP servers and list their tools too.")
@json_option
def tools(is_connecting: bool, is_json: bool) -> None:
    """List the tools that programs can call, and that templates can list for models.

    They are those that come with weft, Python functions (@weft.tool in the modules of [tools] modules),
    executors ([tools] executors) and the tools of MCP servers (.mcp.json). A model gets those that its
    template lists, and no others.
    """
    for line in missing_tool_paths():
        say(line)
    found = asyncio.run(listed(is_connecting=is_connecting))
    if is_json:
        print_json({"tools": [_described(one) for one in found]})
        return
    print_table(["NAME", "EFFECTS", "SOURCE", "DESCRIPTION"], [_row(one) for one in found])


def missing_tool_paths() -> list[str]:
    """What `[tools]` names and is not there."""
    # Imported here: `weft tools --help` must not pay for it.
    from weft.config.settings import find_project_file, missing_paths, read_project, working_folder

    folder = working_folder()
    file = find_project_file(folder)
    return missing_paths(read_project(folder).tools, folder if file is None else file.parent)


async def listed(*, is_connecting: bool) -> "tuple[ListedTool, ...]":
    """The tools of the project, and why some cannot be used."""
    # Imported here: `weft tools --help` must not pay for it.
    import os

    from weft.config.settings import find_project_file, read_project, working_folder
    from weft.effects.tools import open_project_tools

    folder = working_folder()
    project = read_project(folder)
    file = find_project_file(folder)
    toolbox = open_project_tools(
        project.tools, folder if file is None else file.parent, os.environ, project.executors, project.models
    )
    try:
        return await toolbox.listed(is_connecting=is_connecting)
    finally:
        await toolbox.close()


def _described(one: "ListedTool") -> dict[str, object]:
    return {
        "name": one.name,
        "source": one.source,
        "description": one.description,
        "has_effects": one.has_effects,
        "usable": one.error is None,
        "why": one.error,
    }


def _row(one: "ListedTool") -> tuple[str, str, str, str]:
    effects = "-" if one.has_effects is None else "yes" if one.has_effects else "no"
    said = f"not usable: {one.error}" if one.error else one.description.partition("\n")[0]
    return printable(one.name), effects, printable(one.source), printable(said)
