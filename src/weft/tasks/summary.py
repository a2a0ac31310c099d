"""Summaries of flows: overall status and counts."""

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.flow import Flow, reachable
from weft.tasks.record import Status

_UNSUCCESSFUL = frozenset({Status.FAILED, Status.CANCELLED})


class FlowSummary(Struct, frozen=True, omit_defaults=True):
    """The status of a flow as a whole, the number of tasks by status, and how many can never start."""

    root_id: TaskId
    status: Status
    counts: dict[str, int]
    blocked: int
    scheduled: int = 0
    """Pending tasks that are not blocked and wait for a schedule, their own or a dependency's."""

    @property
    def is_over(self) -> bool:
        """Return whether no task of the flow is in progress or can still start by itself."""
        waiting = self.blocked + self.scheduled
        return not self.counts.get(Status.IN_PROGRESS) and self.counts.get(Status.PENDING, 0) == waiting


def summarize(flow: Flow) -> FlowSummary:
    stuck = blocked(flow)
    return summary_of(
        flow.root.id, Counter(task.status for task in flow), len(stuck), len(scheduled(flow) - stuck)
    )


def summary_of(
    root_id: TaskId, counts: Mapping[str, int], blocked_tasks: int, scheduled_tasks: int
) -> FlowSummary:
    """Return the summary of a flow from counts of its tasks."""
    return FlowSummary(
        root_id=root_id,
        status=_overall(counts),
        counts={status.value: counts[status] for status in Status if counts.get(status)},
        blocked=blocked_tasks,
        scheduled=scheduled_tasks,
    )


def blocked(flow: Flow) -> set[TaskId]:
    """Return the pending tasks that can never start.

    A task is blocked if a required dependency failed or was cancelled, or if any dependency is blocked:
    an optional dependency must still end.
    """
    first = [
        task.id
        for task in flow
        if task.status is Status.PENDING
        and any(
            dependency.required and dependency.id in flow and flow[dependency.id].status in _UNSUCCESSFUL
            for dependency in task.dependencies
        )
    ]
    return _with_pending_dependents(flow, first)


def scheduled(flow: Flow) -> set[TaskId]:
    """Return the pending tasks that wait for a schedule, their own or a dependency's."""
    return _with_pending_dependents(
        flow, [task.id for task in flow if task.status is Status.PENDING and task.schedule_enabled]
    )


def _with_pending_dependents(flow: Flow, first: list[TaskId]) -> set[TaskId]:
    waiting = {
        task_id: [dependent for dependent in dependents if flow[dependent].status is Status.PENDING]
        for task_id, dependents in flow.dependents.items()
    }
    return set(reachable(first, waiting))


def _overall(counts: Mapping[str, int]) -> Status:
    for status in (Status.IN_PROGRESS, Status.FAILED, Status.CANCELLED, Status.PENDING):
        if counts.get(status):
            return status
    return Status.COMPLETED
