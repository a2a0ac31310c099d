"""Retry a task and everything below it that has failed."""

from datetime import datetime

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.changes import Decision, Found, Needs
from weft.tasks.operations.move import moved
from weft.tasks.record import Status
from weft.tasks.states import Retried
from weft.tasks.steps import is_step


class RetryTasks(Struct, frozen=True, kw_only=True):
    """Makes failed tasks pending again; its value is their ids."""

    task_id: TaskId
    now: datetime

    def needs(self) -> Needs:
        return Needs(flows_of=(self.task_id,))

    def decide(self, found: Found) -> Decision[tuple[TaskId, ...]]:
        flow = found.flow_of(self.task_id)
        # The task itself comes along when none has failed: the state machine then says why it cannot.
        # A step goes on with the task whose evaluation made it: by itself nobody would perform it.
        chosen = [
            task_id
            for task_id in flow.subtree(self.task_id)
            if flow[task_id].status is Status.FAILED and not is_step(flow[task_id])
        ]
        return moved([flow[task_id] for task_id in chosen or [self.task_id]], Retried(self.now))
