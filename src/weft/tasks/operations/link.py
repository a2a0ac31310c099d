"""Link completed tasks: new records that carry their sources' results."""

from datetime import datetime

from msgspec import Struct

from weft.ids import NewTaskId, TaskId
from weft.tasks.changes import Decision, Found, Needs
from weft.tasks.flow import Flow
from weft.tasks.operations.derive import as_link, derive, require_completed


class LinkTasks(Struct, frozen=True, kw_only=True):
    """Links a task and its descendants; its value is the new flow."""

    task_id: TaskId
    new_id: NewTaskId
    now: datetime

    def needs(self) -> Needs:
        return Needs(flows_of=(self.task_id,))

    def decide(self, found: Found) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        selected = flow.subtree(self.task_id)
        require_completed((flow[task_id] for task_id in selected), what="linked")
        return derive(flow, selected, as_link, new_id=self.new_id, now=self.now)
