"""Archive completed tasks: a frozen deep copy for the record."""

from datetime import datetime

from msgspec import Struct

from weft.ids import NewTaskId, TaskId
from weft.tasks.changes import Decision, Found, Needs
from weft.tasks.flow import Flow
from weft.tasks.operations.derive import as_archive, derive, require_completed
from weft.tasks.steps import makers


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
        # A run may have completed although steps of it failed or were cancelled: they are part of it.
        unmade = (flow[one] for one in selected if one == self.task_id or one not in made)
        require_completed(unmade, what="archived")
        return derive(flow, selected, as_archive, new_id=self.new_id, now=self.now)
