"""What tests build flows from."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.reading import read_flow
from weft.tasks.record import Status, Task, evolve

NOON = datetime(2025, 1, 15, 12, tzinfo=UTC)


def numbered_ids(prefix: str = "a") -> Callable[[], TaskId]:
    """Ids that tell in tests which task was made when: ...-000000000001, and so on."""
    count = 0

    def make() -> TaskId:
        nonlocal count
        count += 1
        return TaskId(f"{prefix * 8}-0000-4000-8000-{count:012x}")

    return make


def a_flow(*tasks: dict[str, Any] | str, prefix: str = "a", user_id: str | None = None) -> Flow:
    """A flow of tasks given by name or by their fields; the first is the root."""
    document = [{"name": task} if isinstance(task, str) else task for task in tasks]
    return read_flow(document, new_id=numbered_ids(prefix), now=NOON, user_id=user_id)


def completed(flow: Flow) -> Flow:
    """The flow with every task completed, its result naming the task."""
    return Flow(
        evolve(
            task,
            status=Status.COMPLETED,
            started_at=NOON,
            completed_at=NOON,
            progress=1.0,
            result={"made_by": task.name},
        )
        for task in flow
    )


def named(flow: Flow, name: str) -> Task:
    """The one task of that name."""
    (found,) = (task for task in flow if task.name == name)
    return found
