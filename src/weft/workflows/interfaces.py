"""What a workflow must know of the tasks that its steps name: the one way from a name to a task."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from weft.executors.outputs import output_schema_of
from weft.executors.registry import ExecutorRegistry
from weft.store.templates import RegisteredTemplate
from weft.tasks.record import JsonObject


class TaskInterface(Struct, frozen=True, kw_only=True):
    """How a task is called."""

    method: str
    """What the record of a step has as `schemas.method`."""
    input_schema: JsonObject | None
    """The JSON Schema of its inputs; None: anything goes."""
    output_schema: JsonObject | None = None
    """The JSON Schema of its result; None: nothing is known of it before it is there."""
    params: JsonObject = field(default_factory=dict)
    """What the record of a step says in `params` to be that task, beside what the step says."""


class TaskInterfaces(Protocol):
    """Tasks by name, whatever they are."""

    def interface_of(self, name: str) -> TaskInterface:
        """How the task of that name is called; raises a RequestError that says what there is instead."""
        ...


class ExecutorTasks:
    """The executors of a registry as tasks, by their ids, templates by what steps call them, and tools."""

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
        """How the executor, template or tool of that name is called; raises UnknownExecutor or UnknownTool.

        Names of tools have a colon; an executor or a template of such a name comes first.
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
    # Imported here: a workflow of executors needs no language.
    from weft.language.reading import read_text
    from weft.language.result_schemas import result_schema
    from weft.language.tree import Template

    for form in read_text(template.text, template.name, "sexp").forms:
        if isinstance(form, Template):
            return result_schema(form)
    return None
