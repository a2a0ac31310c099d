"""Link completed tasks: new records that carry their sources' results."""

from datetime import datetime

from msgspec import Struct

from weft.ids import NewTaskId, TaskId
from weft.tasks.changes import Decision, Found, Needs
from weft.tasks.flow import Flow
from weft.tasks.operations.derive import as_link, derive, require_completed
from weft.tasks.steps import makers


class LinkTasks(Struct, frozen=True, kw_only=True):
    """Links a task and its descendants, but no steps of runs; its value is the new flow."""

    task_id: TaskId
    new_id: NewTaskId
    now: datetime

    def needs(self) -> Needs:
        return Needs(flows_of=(self.task_id,))

    def decide(self, found: Found) -> Decision[Flow]:
        flow = found.flow_of(self.task_id)
        made = makers(flow)
        # A link of a run is its result. How that came about is told by the steps of the source.
        selected = [one for one in flow.subtree(self.task_id) if one == self.task_id or one not in made]
        require_completed((flow[task_id] for task_id in selected), what="linked")
        return derive(flow, selected, as_link, new_id=self.new_id, now=self.now)
