"""`workflow_step`: performs a step of a workflow with the executor that its inputs name.

This is for flows written by hand. `weft.Workflow` makes records that name their executors directly, so that a
worker claims only the steps for which it has an executor.
"""

from typing import Annotated, Any

from msgspec import Meta, field
from msgspec.structs import replace

from weft.executors.invoke import grace_seconds_of, invoke_executor
from weft.executors.protocol import (
    DEFAULT_CANCEL_GRACE_SECONDS,
    Inputs,
    Work,
    permanent_failure,
    read_inputs,
    schema_of,
)
from weft.executors.registry import ExecutorRegistry
from weft.tasks.parsing.inputs import value_at
from weft.tasks.parsing.problems import nearest
from weft.tasks.record import ExecutorType, JsonObject


class StepInputs(Inputs, frozen=True, kw_only=True):
    task_name: Annotated[str, Meta(min_length=1, description="Executor that performs the step.")]
    static_inputs: Annotated[dict[str, Any], Meta(description="Inputs of the executor.")] = field(
        default_factory=dict
    )
    dynamic_input_mappings: Annotated[
        dict[str, str],
        Meta(description='Inputs from results: `{"input": "name.field"}`, with the name of a dependency.'),
    ] = field(default_factory=dict)
    output_name: Annotated[str, Meta(description="Must be the name of the record, if given.")] | None = None


class WorkflowStep:
    """Performs a step with the executor named in its inputs."""

    id = "workflow_step"
    type = ExecutorType.LOCAL
    summary = "Performs a step with a named executor; inputs can come from dependencies by name."
    input_schema = schema_of(StepInputs)

    def __init__(self, executors: ExecutorRegistry) -> None:
        self._executors = executors

    @property
    def cancel_grace_seconds(self) -> float:
        """Return a little more than the longest grace period of the executors that a step can name."""
        others = (executor for executor in self._executors.list() if executor is not self)
        return (
            max((grace_seconds_of(executor) for executor in others), default=0.0)
            + DEFAULT_CANCEL_GRACE_SECONDS
        )

    async def execute(self, work: Work) -> JsonObject:
        step = read_inputs(StepInputs, work.inputs)
        if step.output_name not in (None, work.task.name):
            # Other steps find the result by the name of the record, as they cannot see its inputs.
            reason = f"output_name is '{step.output_name}', but the name of the record is '{work.task.name}'"
            raise permanent_failure(reason)
        if ":" in step.task_name and self._executors.find(step.task_name) is None:
            reason = (
                f"'{step.task_name}' is not an executor; call a tool from a step of a workflow in Python, "
            )
            reason += "or from a program (schemas.method template)"
            raise permanent_failure(reason)
        executor = self._executors.get(step.task_name)
        return await invoke_executor(
            executor, replace(work, inputs={**step.static_inputs, **_mapped(step, work)})
        )


def _mapped(step: StepInputs, work: Work) -> JsonObject:
    mapped: JsonObject = {}
    for parameter, source in step.dynamic_input_mappings.items():
        name, _, path = source.partition(".")
        mapped[parameter] = value_at(_result_of(name, work), path, parameter=parameter, source=source)
    return mapped


def _result_of(name: str, work: Work) -> JsonObject:
    """Return the result of the completed dependency with this name. Raise ExecutionFailed unless unique."""
    found = [task_id for task_id, other in work.dependency_names.items() if other == name]
    if len(found) != 1:
        how_many = "several completed dependencies have" if found else "no completed dependency has"
        hint = "" if found else nearest(name, work.dependency_names.values())
        raise permanent_failure(f"{how_many} the name '{name}'{hint}")
    return work.dependencies[found[0]]
