"""Archive completed tasks: a frozen deep copy for the record."""

from datetime import datetime

from msgspec import Struct

from weft.ids import NewTaskId, TaskId
from weft.tasks.changes import Decision, Found, Needs
from weft.tasks.flow import Flow
from weft.tasks.operations.derive import NewIds, as_archive, derive, require_completed
from weft.tasks.record import Status, Task, evolve
from weft.tasks.steps import makers

LEFT_BEHIND = "the run ended without it"
"""Of a step that was under way when a process died, and that the program did not ask for again."""


class ArchiveTasks(Struct, frozen=True, kw_only=True):
    """Archives a task and its descendants; its value is the new, frozen flow."""

    task_id: TaskId
    new_id: NewTaskId
    now: datetime

    def needs(self) -> Needs:
        return Needs(flows_of=(self.task_id,))

    def decide(self, found: Found) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        selected = flow.subtree(self.task_id)
        made = makers(flow)
        # A run may have completed although steps of it failed or were called off: they are part of it.
        unmade = (flow[one] for one in selected if one == self.task_id or one not in made)
        require_completed(unmade, what="archived")
        return derive(flow, selected, self._make, new_id=self.new_id, now=self.now)

    def _make(self, task: Task, new_ids: NewIds) -> Task:
        if task.status.is_terminal:
            return as_archive(task, new_ids)
        ended = evolve(task, status=Status.CANCELLED, error=LEFT_BEHIND, completed_at=self.now)
        return as_archive(ended, new_ids)
