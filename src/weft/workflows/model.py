"""Steps and results of a workflow."""

from collections.abc import Iterator
from typing import Any, Self

from msgspec import Struct, field

from weft.errors import RequestError
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.parsing.problems import nearest
from weft.tasks.record import JsonObject, Status
from weft.tasks.summary import summarize


class WorkflowStepDefinition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step: the task, its inputs, and the name of its result."""

    task_name: str
    """Id of an executor, or name of a template or tool."""
    output_name: str
    """Name of its result for other steps; unique in the workflow."""
    static_inputs: JsonObject = field(default_factory=dict)
    dynamic_input_mappings: dict[str, str] = field(default_factory=dict)
    """`{"input": "source.field.subfield"}`: the source is the output name of another step, or a name in the
    initial context. Numbers in the path are indexes; without a path the whole value is used."""
    params: JsonObject = field(default_factory=dict)
    """Further settings for the engine: `retry`, `timeout_seconds`."""

    def sources(self) -> Iterator["Source"]:
        """Yield the sources of the mapped inputs."""
        for parameter, text in self.dynamic_input_mappings.items():
            name, _, path = text.partition(".")
            yield Source(parameter, text, name, path)


class Source(Struct, frozen=True):
    """The source of a mapped input: `path` is a field of the step, or of the context value, called `name`."""

    parameter: str
    text: str
    """The mapping as written."""
    name: str
    path: str


Context = dict[str, Any]
"""The initial context: JSON values by name."""


class StepNotCompleted(RequestError):
    """The requested step of a workflow has no result."""

    code = "step-not-completed"
    exit_code = 1

    def __init__(self, output_name: str, reason: str) -> None:
        super().__init__(f"step '{output_name}' has no result: {reason}")
        self.output_name = output_name


class WorkflowResult(Struct, frozen=True, kw_only=True):
    """The status and results of a run of a workflow."""

    root_id: TaskId
    status: Status
    """Status of the run as a whole."""
    results: dict[str, JsonObject]
    """Results of the completed steps, by output name."""
    errors: dict[str, str]
    """Errors of steps that failed or were cancelled, by output name."""
    waiting: tuple[str, ...]
    """Output names of steps that have not ended: after a run, they wait for a person or a failed step."""

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """Summarise the flow of a workflow."""
        steps = [flow[task_id] for task_id in flow.children.get(flow.root.id, [])]
        return cls(
            root_id=flow.root.id,
            status=summarize(flow).status,
            results={step.name: step.result or {} for step in steps if step.status is Status.COMPLETED},
            errors={step.name: step.error for step in steps if step.error is not None},
            waiting=tuple(step.name for step in steps if not step.status.is_terminal),
        )

    def __getitem__(self, output_name: str) -> JsonObject:
        """Return the result of a step; raise StepNotCompleted."""
        found = self.results.get(output_name)
        if found is not None:
            return found
        if output_name in self.errors:
            raise StepNotCompleted(output_name, self.errors[output_name])
        if output_name in self.waiting:
            raise StepNotCompleted(output_name, "it waits for a step that did not complete")
        known = [*self.results, *self.errors, *self.waiting]
        raise StepNotCompleted(output_name, f"there is no such step{nearest(output_name, known)}")
