"""What tests of executors build attempts from."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.builders import NOON
from weft.executors.invoke import invoke_executor
from weft.executors.protocol import Executor, Work
from weft.ids import TaskId
from weft.tasks.record import JsonObject, Status, Task

TASK_ID = TaskId("aaaaaaaa-0000-4000-8000-000000000001")


class Reports(list[float]):
    """The progress that was reported."""

    async def __call__(self, fraction: float) -> None:
        self.append(fraction)


def work_of(
    inputs: JsonObject | None = None,
    *,
    dependencies: Mapping[TaskId, JsonObject] | None = None,
    names: Mapping[TaskId, str] | None = None,
    report: Callable[[float], Awaitable[None]] | None = None,
) -> Work:
    """Return the first attempt at a task."""
    task = Task(id=TASK_ID, name="a", status=Status.IN_PROGRESS, inputs=inputs or {}, started_at=NOON)
    return Work(
        task=task,
        attempt=1,
        inputs=inputs or {},
        dependencies=dependencies or {},
        report=Reports() if report is None else report,
        dependency_names=names or {},
    )


async def run(executor: Executor, inputs: JsonObject | None = None, **more: Any) -> JsonObject:
    return await invoke_executor(executor, work_of(inputs, **more))
