"""A step of a workflow, as the specification defines it."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from weft.tasks.record import JsonObject


class WorkflowStepDefinition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: which task, its inputs, and the name its result goes by."""

    task_name: str
    """The task to perform: what `TaskInterfaces` knows it by, such as the id of an executor, or a tool."""
    output_name: str
    """What other steps call its result; unique in the workflow."""
    static_inputs: JsonObject = field(default_factory=dict)
    dynamic_input_mappings: dict[str, str] = field(default_factory=dict)
    """`{"input": "source.field.subfield"}`: the source is the output name of another step, or a name of the
    initial context; numbers in the path are indexes; without a path all of it is taken."""
    params: JsonObject = field(default_factory=dict)
    """What the engine is told of the step beside the specification's fields: `retry`, `timeout_seconds`."""

    def sources(self) -> Iterator["Source"]:
        """Where the mapped inputs come from."""
        for parameter, text in self.dynamic_input_mappings.items():
            name, _, path = text.partition(".")
            yield Source(parameter, text, name, path)


class Source(Struct, frozen=True):
    """Where one mapped input comes from."""

    parameter: str
    text: str
    """As it was written."""
    name: str
    path: str


Context = dict[str, Any]
"""The initial context: JSON values by name."""
