"""Compile the steps of a workflow into a flow document, as `weft flow submit` reads it."""

from collections.abc import Mapping, Sequence
from typing import Any

from weft.tasks.record import JsonObject
from weft.workflows.checks import CheckedWorkflow, InvalidWorkflow
from weft.workflows.model import WorkflowStepDefinition
from weft.workflows.task_interfaces import TaskInterfaces


def compiled(
    name: str, steps: Sequence[WorkflowStepDefinition], context: Mapping[str, Any], tasks: TaskInterfaces
) -> list[JsonObject]:
    """Return the flow of a workflow: a root record, and one record per step; raise InvalidWorkflow.

    The root record collects the results by output name. It depends on every step, so it completes with the
    workflow, and stays pending if a step fails.
    """
    checked = CheckedWorkflow(name, steps, context, tasks)
    if checked.problems:
        raise InvalidWorkflow(checked.problems)
    root: JsonObject = {
        "name": name,
        "schemas": {"method": "aggregate_results"},
        "inputs": {"key_by": "name"},
        "dependencies": list(checked.steps),
    }
    return [root, *(_record(step, checked) for step in checked.steps.values())]


def _record(step: WorkflowStepDefinition, checked: CheckedWorkflow) -> JsonObject:
    # Values of the initial context become inputs of the steps that use them, not a record to depend on. So
    # they are checked against the task's schema before anything runs, may refer to secrets, and a step's
    # result can be reused unless a value that the step itself uses has changed.
    known = checked.context_inputs(step)
    mappings = {source.parameter: source.text for source in step.sources() if source.parameter not in known}
    params = checked.params_of(step)
    if mappings:
        params["input_mappings"] = mappings
    return {
        "name": step.output_name,
        "schemas": {"method": checked.method_of(step)},
        "inputs": {**step.static_inputs, **known},
        **({"params": params} if params else {}),
        "dependencies": checked.dependencies_of(step),
    }
