"""What a workflow gave: results by output name."""

from typing import Self

from msgspec import Struct

from weft.errors import RequestError
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.problems import nearest
from weft.tasks.record import JsonObject, Status
from weft.tasks.summary import summarize


class StepNotCompleted(RequestError):
    """The result of a step was asked for that has none."""

    code = "step-not-completed"
    exit_code = 1

    def __init__(self, output_name: str, reason: str) -> None:
        super().__init__(f"step '{output_name}' has no result: {reason}")
        self.output_name = output_name


class WorkflowResult(Struct, frozen=True, kw_only=True):
    """How a run of a workflow stands."""

    root_id: TaskId
    status: Status
    """Of the run as a whole."""
    results: dict[str, JsonObject]
    """What the completed steps gave, by output name."""
    errors: dict[str, str]
    """Why steps failed or were cancelled, by output name."""
    waiting: tuple[str, ...]
    """The output names of steps that have not ended: after a run, those that needed one that failed."""

    @classmethod
    def of(cls, flow: Flow) -> Self:
        """How the workflow stands whose flow this is."""
        steps = [flow[task_id] for task_id in flow.children.get(flow.root.id, [])]
        return cls(
            root_id=flow.root.id,
            status=summarize(flow).status,
            results={step.name: step.result or {} for step in steps if step.status is Status.COMPLETED},
            errors={step.name: step.error for step in steps if step.error is not None},
            waiting=tuple(step.name for step in steps if not step.status.is_terminal),
        )

    def __getitem__(self, output_name: str) -> JsonObject:
        """The result of a step; raises StepNotCompleted."""
        found = self.results.get(output_name)
        if found is not None:
            return found
        if output_name in self.errors:
            raise StepNotCompleted(output_name, self.errors[output_name])
        if output_name in self.waiting:
            raise StepNotCompleted(output_name, "it waits for a step that did not complete")
        known = [*self.results, *self.errors, *self.waiting]
        raise StepNotCompleted(output_name, f"there is no such step{nearest(output_name, known)}")
