"""The builder of workflows."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import msgspec
from msgspec import Struct

from weft.app.app import App
from weft.app.submission import named_templates
from weft.app.sync import SyncApp
from weft.config.settings import load_settings
from weft.effects.tools import project_registry
from weft.tasks.record import JsonObject
from weft.workflows.compile import compiled
from weft.workflows.model import WorkflowResult, WorkflowStepDefinition
from weft.workflows.task_interfaces import ExecutorTasks, TaskInterfaces, ToolTasks


class Workflow(Struct, frozen=True):
    """Steps that use each other's results. It is a value: `step` gives a new one."""

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
        """The workflow with a further step; the order of steps does not matter."""
        step = WorkflowStepDefinition(
            task_name=task_name,
            output_name=output_name,
            static_inputs=dict(static_inputs or {}),
            dynamic_input_mappings=dict(dynamic_input_mappings or {}),
            params=dict(params or {}),
        )
        return msgspec.structs.replace(self, steps=(*self.steps, step))

    def compile(self, tasks: TaskInterfaces | None = None, /, **initial_context: Any) -> list[JsonObject]:
        """The flow of the workflow, as `weft flow submit` and `App.submit` take it; runs nothing.

        Steps name executors and tools of the project unless `tasks` says otherwise (`run` knows the templates
        of the store, too). Raises InvalidWorkflow with everything that is wrong.
        """
        if tasks is None:
            tasks = ExecutorTasks(project_registry(load_settings()), tools=ToolTasks())
        return compiled(self.name, self.steps, initial_context, tasks)

    def run(self, app: SyncApp | None = None, /, **initial_context: Any) -> WorkflowResult:
        """Run it until nothing of it can go on, in an open store or in that of the project.

        Raises InvalidWorkflow before anything is stored. A step that fails does not raise: the result says
        so, and what does not need that step is done.
        """
        if app is None:
            with SyncApp() as own:
                return self.run(own, **initial_context)
        tasks = ExecutorTasks(app.executors, app.named_templates(self._task_names()), ToolTasks())
        flow = app.run(self.compile(tasks, **initial_context))
        return WorkflowResult.of(flow)

    async def arun(self, app: App | None = None, /, **initial_context: Any) -> WorkflowResult:
        """As `run`, in a running event loop."""
        if app is None:
            async with await App.open() as own:
                return await self.arun(own, **initial_context)
        templates = await named_templates(app.store, app.owner, self._task_names())
        tasks = ExecutorTasks(app.executors, templates, ToolTasks())
        summary = await app.run(self.compile(tasks, **initial_context))
        return WorkflowResult.of(await app.flow_of(summary.root_id))

    def _task_names(self) -> list[str]:
        return [step.task_name for step in self.steps]
