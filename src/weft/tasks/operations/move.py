"""Move a task through the state machine on somebody's behalf: cancel it, retry it."""

from collections.abc import Sequence

from msgspec import Struct

from weft.ids import TaskId
from weft.tasks.changes import Changes, Decision, Found, Needs
from weft.tasks.events import NewEvent
from weft.tasks.record import JsonObject, Task
from weft.tasks.states import Move, transition


class MoveTask(Struct, frozen=True):
    """Applies one move to one task; its value is the task afterwards."""

    task_id: TaskId
    move: Move

    def needs(self) -> Needs:
        return Needs(tasks=(self.task_id,))

    def decide(self, found: Found) -> Decision[Task]:
        task = transition(found.task(self.task_id), self.move)
        return Decision(Changes(updated=(task,), events=(_event(task, self.move),)), task)


def moved(tasks: Sequence[Task], move: Move) -> Decision[tuple[TaskId, ...]]:
    """The decision to make the same move with several tasks; its value is their ids."""
    after = tuple(transition(task, move) for task in tasks)
    events = tuple(_event(task, move) for task in after)
    return Decision(Changes(updated=after, events=events), tuple(task.id for task in after))


def _event(task: Task, move: Move) -> NewEvent:
    facts: JsonObject = {} if task.error is None else {"error": task.error}
    return NewEvent(move.event_type, task.id, task.task_tree_id or task.id, task.user_id, move.at, facts)
