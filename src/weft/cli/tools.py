"""`weft tools`."""

import asyncio
import os

import click

from weft.cli.display.output import print_json, print_table, printable
from weft.cli.invoke import echo_status
from weft.cli.options import json_option
from weft.config.settings import missing_paths, project_folder, read_project, working_folder
from weft.effects.tools import open_project_tools
from weft.tools.toolbox import ListedTool


@click.command()
@click.option("--connect", "is_connecting", is_flag=True, help="Also start MCP servers and list their tools.")
@json_option
def tools(is_connecting: bool, is_json: bool) -> None:
    """List the tools that programs and models can call.

    Tools are built into weft, are Python functions (@weft.tool in the modules of `[tools] modules`),
    executors (`[tools] executors`), or belong to MCP servers (.mcp.json). A model can call only the tools
    that its template lists.
    """
    for line in missing_tool_paths():
        echo_status(line)
    found = asyncio.run(list_tools(is_connecting=is_connecting))
    if is_json:
        print_json({"tools": [_tool_json(one) for one in found]})
        return
    print_table(["NAME", "EFFECTS", "SOURCE", "DESCRIPTION"], [_row(one) for one in found])


def missing_tool_paths() -> list[str]:
    """Return a message for each path in `[tools]` that does not exist."""
    folder = working_folder()
    return missing_paths(read_project(folder).tools, project_folder(folder))


async def list_tools(*, is_connecting: bool) -> tuple[ListedTool, ...]:
    """Return the tools of the project; `error` of a tool says why it is not usable."""
    project = read_project(working_folder())
    toolbox = open_project_tools(
        project.tools, project_folder(working_folder()), os.environ, project.executors, project.models
    )
    try:
        return await toolbox.listed(is_connecting=is_connecting)
    finally:
        await toolbox.close()


def _tool_json(one: ListedTool) -> dict[str, object]:
    return {
        "name": one.name,
        "source": one.source,
        "description": one.description,
        "has_effects": one.has_effects,
        "usable": one.error is None,
        "why": one.error,
    }


def _row(one: ListedTool) -> tuple[str, str, str, str]:
    effects = "-" if one.has_effects is None else "yes" if one.has_effects else "no"
    about = f"not usable: {one.error}" if one.error else one.description.partition("\n")[0]
    return printable(one.name), effects, printable(one.source), printable(about)
