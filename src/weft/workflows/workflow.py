"""The builder of workflows, and their compilation to flow documents, as `weft flow submit` reads them."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec import Struct

from weft.app.app import App
from weft.app.sync import SyncApp
from weft.config.settings import load_settings
from weft.effects.tools import project_registry
from weft.tasks.record import JsonObject
from weft.workflows.checks import CheckedWorkflow, InvalidWorkflow
from weft.workflows.model import WorkflowResult, WorkflowStepDefinition
from weft.workflows.task_interfaces import ExecutorTasks, TaskInterfaces, ToolTasks


class Workflow(Struct, frozen=True):
    """An immutable workflow of steps that use each other's results; `step` returns a new one."""

    name: str
    steps: Sequence[WorkflowStepDefinition] = ()

    def step(
        self,
        task_name: str,
        *,
        output_name: str,
        static_inputs: Mapping[str, Any] | None = None,
        dynamic_input_mappings: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return the workflow with a further step; the order of steps does not matter."""
        step = WorkflowStepDefinition(
            task_name=task_name,
            output_name=output_name,
            static_inputs=dict(static_inputs or {}),
            dynamic_input_mappings=dict(dynamic_input_mappings or {}),
            params=dict(params or {}),
        )
        return msgspec.structs.replace(self, steps=(*self.steps, step))

    def compile(self, tasks: TaskInterfaces | None = None, /, **initial_context: Any) -> list[JsonObject]:
        """Return the flow document for `weft flow submit` and `App.submit`.

        Steps can use the executors and tools of the project, or only `tasks` if given; with `run` also
        templates of the store. Raise InvalidWorkflow with all problems.
        """
        if tasks is None:
            tasks = ExecutorTasks(project_registry(load_settings()), tools=ToolTasks())
        checked = CheckedWorkflow(self.name, self.steps, initial_context, tasks)
        if checked.problems:
            raise InvalidWorkflow(checked.problems)
        # The root record collects the results by output name. It depends on every step, so it completes with
        # the workflow, and stays pending if a step fails.
        root: JsonObject = {
            "name": self.name,
            "schemas": {"method": "aggregate_results"},
            "inputs": {"key_by": "name"},
            "dependencies": list(checked.steps),
        }
        return [root, *map(checked.record_of, checked.steps.values())]

    def run(self, app: SyncApp | None = None, /, **initial_context: Any) -> WorkflowResult:
        """Run the workflow in the store of `app`, by default the project's store, and return its result.

        Raise InvalidWorkflow before anything is stored. A failed step raises no exception: the result reports
        it, and steps that do not depend on it still run.
        """
        if app is None:
            with SyncApp() as own:
                return self.run(own, **initial_context)
        tasks = ExecutorTasks(app.executors, app.named_templates(self._task_names()), ToolTasks())
        flow = app.run(self.compile(tasks, **initial_context))
        return WorkflowResult.of(flow)

    async def arun(self, app: App | None = None, /, **initial_context: Any) -> WorkflowResult:
        """Run the workflow like `run`, in the running event loop."""
        if app is None:
            async with await App.open() as own:
                return await self.arun(own, **initial_context)
        templates = await app.library.find(self._task_names())
        tasks = ExecutorTasks(app.executors, templates, ToolTasks())
        summary = await app.run(self.compile(tasks, **initial_context))
        return WorkflowResult.of(await app.flow_of(summary.root_id))

    def _task_names(self) -> list[str]:
        return [step.task_name for step in self.steps]
