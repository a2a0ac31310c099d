"""Cancel a task and everything below it that has not ended."""

from datetime import datetime

from msgspec import Struct, structs

from weft.ids import TaskId
from weft.tasks.changes import Decision, Found, Needs
from weft.tasks.operations.move import moved
from weft.tasks.questions import is_question, woken
from weft.tasks.record import Status
from weft.tasks.states import Cancelled

_OPEN = frozenset({Status.PENDING, Status.IN_PROGRESS})


class CancelTasks(Struct, frozen=True, kw_only=True):
    """Cancels the task and its descendants; its value is the ids of those cancelled."""

    task_id: TaskId
    reason: str
    now: datetime

    def needs(self) -> Needs:
        return Needs(flows_of=(self.task_id,))

    def decide(self, found: Found) -> Decision[tuple[TaskId, ...]]:
        flow = found.flow_of(self.task_id)
        # The task itself comes along when nothing is open: the state machine then says why it cannot.
        chosen = [task_id for task_id in flow.subtree(self.task_id) if flow[task_id].status in _OPEN]
        move = Cancelled(self.now, self.reason)
        decision = moved([flow[task_id] for task_id in chosen or [self.task_id]], move)
        questions = {task_id for task_id in chosen if is_question(flow[task_id])}
        resting = [task for task in woken(flow, questions) if task.id not in decision.value]
        if not resting:
            return decision
        # Who asked goes on, without an answer.
        changes = structs.replace(
            decision.changes, updated=(*decision.changes.updated, *resting), run=(flow.root.id,)
        )
        return Decision(changes, decision.value)
