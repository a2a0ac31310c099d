"""Interfaces of the tasks that steps can name: executors, templates and tools."""

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from weft.config.settings import ProjectSettings, project_folder, read_project, working_folder
from weft.effects.checks import ToolNames
from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.executors.protocol import output_schema_of
from weft.executors.registry import ExecutorRegistry
from weft.language.ast import FunctionCall, Program, Template
from weft.language.diagnostics import nearest_tool
from weft.language.schemas import result_schema
from weft.language.sexp.printer import print_program
from weft.runs.program import StoredProgram, StoredText, as_params
from weft.runs.templates import stored_text
from weft.store.models import RegisteredTemplate
from weft.tasks.program_params import TEMPLATE
from weft.tasks.record import JsonObject

if TYPE_CHECKING:
    from weft.tools.toolbox import Toolbox


class TaskInterface(Struct, frozen=True, kw_only=True):
    """The method, schemas and params of a task that a step can name."""

    method: str
    """`schemas.method` for the record of a step."""
    input_schema: JsonObject | None
    """JSON Schema of the inputs; None: any inputs."""
    output_schema: JsonObject | None = None
    """JSON Schema of the result; None if it is unknown before the task runs."""
    params: JsonObject = field(default_factory=dict)
    """Entries to add to the `params` of the step's record."""


class TaskInterfaces(Protocol):
    """Lookup of task interfaces by name."""

    def interface_of(self, name: str) -> TaskInterface:
        """Return the interface of a task; raise a RequestError with suggestions if it is unknown."""


class ExecutorTasks:
    """Interfaces of executors by id, of templates by name, and of tools."""

    def __init__(
        self,
        executors: ExecutorRegistry,
        templates: Mapping[str, RegisteredTemplate] | None = None,
        tools: TaskInterfaces | None = None,
    ) -> None:
        self._executors = executors
        self._templates = templates or {}
        self._tools = tools

    def interface_of(self, name: str) -> TaskInterface:
        """Return the interface of an executor, template or tool; raise UnknownExecutor or UnknownTool.

        Names of tools contain a colon; an executor or template with such a name takes precedence.
        """
        if self._executors.find(name) is None:
            template = self._templates.get(name)
            if template is not None:
                return TaskInterface(
                    method=name,
                    input_schema=template.facts.input_schema,
                    output_schema=_result_schema(template),
                )
            if self._tools is not None and ":" in name:
                return self._tools.interface_of(name)
        executor = self._executors.get(name)
        return TaskInterface(
            method=executor.id,
            input_schema=executor.input_schema,
            output_schema=output_schema_of(executor),
        )


def _result_schema(template: RegisteredTemplate) -> JsonObject | None:
    forms = stored_text(template).read().forms
    return next((result_schema(form) for form in forms if isinstance(form, Template)), None)


class UnknownTool(RequestError):
    """The project has no tool of that name."""

    code = "unknown-tool"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, name: str, *, hint: str = "") -> None:
        super().__init__(f"there is no tool '{name}'{hint}")
        self.name = name


class ToolTasks:
    """Interfaces of the tools of the project in the working folder; settings are read on first use."""

    def interface_of(self, name: str) -> TaskInterface:
        """Return the interface of a tool; raise UnknownTool.

        Schemas of tools of MCP servers and Python modules are unknown until the tools are called.
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
        # Imported here: few workflows have tools as steps.
        from weft.effects.tools import open_project_tools

        project, folder = self._project, project_folder(working_folder())
        return open_project_tools(project.tools, folder, os.environ, project.executors, project.models)
