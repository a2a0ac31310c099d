"""Tools as the tasks of steps: the record is a program that is nothing but the call of the tool."""

import os
from functools import cached_property
from typing import TYPE_CHECKING

from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.language.sexp.printer import print_program
from weft.language.suggestions import nearest_tool
from weft.language.tree import FunctionCall, Program
from weft.project_file import ProjectSettings, find_project_file, read_project
from weft.project_tools import ToolNames
from weft.runs.program import StoredProgram, StoredText, as_params
from weft.settings import working_folder
from weft.tasks.pinned import TEMPLATE
from weft.workflows.interfaces import TaskInterface

if TYPE_CHECKING:
    from weft.tools.toolbox import Toolbox


class UnknownTool(RequestError):
    """The project has no tool of that name."""

    code = "unknown-tool"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, name: str, *, hint: str = "") -> None:
        super().__init__(f"no tool is called '{name}'{hint}")
        self.name = name


class ToolTasks:
    """The tools of the project in the working folder, by name; nothing is read before a step names one."""

    def interface_of(self, name: str) -> TaskInterface:
        """How the tool of that name is called; raises UnknownTool.

        What the tools of MCP servers and of modules take is known only when they are called.
        """
        names = ToolNames(self._project.tools)
        if name not in names:
            raise UnknownTool(name, hint=nearest_tool(name, names))
        tool = self._toolbox.known(name)
        shown = print_program(Program((FunctionCall(func_name=name),)))
        program = StoredProgram(StoredText("<call>", shown, "sexp"), entry=name)
        return TaskInterface(
            method=TEMPLATE,
            input_schema=None if tool is None else tool.definition.input_schema,
            params=as_params(program),
        )

    @cached_property
    def _project(self) -> ProjectSettings:
        return read_project(working_folder())

    @cached_property
    def _toolbox(self) -> "Toolbox":
        # Imported here: few workflows have such steps.
        from weft.executor_tools import open_project_tools

        file = find_project_file(working_folder())
        folder = working_folder() if file is None else file.parent
        project = self._project
        return open_project_tools(project.tools, folder, os.environ, project.executors, project.models)
