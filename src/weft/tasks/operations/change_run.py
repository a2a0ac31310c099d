"""Change what a run may use for the rest of it."""

from datetime import datetime

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.changes import Changes, Decision, Found, Needs
from weft.tasks.events import EventType, NewEvent
from weft.tasks.record import JsonObject, Task, evolve


class ChangeRun(Struct, frozen=True, kw_only=True):
    """Sets entries of `params` of a run, also of one whose process died; its value is the task afterwards.

    An evaluation that is under way has read them already: whoever asks sees to it that there is none.
    """

    task_id: TaskId
    params: JsonObject
    now: datetime

    def needs(self) -> Needs:
        return Needs(tasks=(self.task_id,))

    def decide(self, found: Found) -> Decision[Task]:
        task = found.task(self.task_id)
        changed = evolve(task, params={**(task.params or {}), **self.params}, updated_at=self.now)
        facts = {"fields": ["params"]}
        event = NewEvent(
            EventType.TASK_UPDATED, task.id, task.task_tree_id or task.id, task.user_id, self.now, facts
        )
        return Decision(Changes(updated=(changed,), events=(event,)), changed)
