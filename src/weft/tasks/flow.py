"""A flow: a tree of task records with one root, held together in memory."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from weft.errors import EXIT_NOT_FOUND, RequestError
from weft.ids import TaskId
from weft.tasks import graph
from weft.tasks.flow_html import flow_html
from weft.tasks.record import Task
from weft.tasks.steps import is_step, place_of


class TaskNotFound(RequestError):
    """No task has that id, or it belongs to another owner."""

    code = "task-not-found"
    exit_code = EXIT_NOT_FOUND

    def __init__(self, *, task_id: str) -> None:
        super().__init__(f"no task {task_id}")
        self.task_id = task_id


class Flow:
    """The records of one flow, in creation order, with the look-ups that rules need."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.by_id: dict[TaskId, Task] = {task.id: task for task in tasks}

    def __iter__(self) -> Iterator[Task]:
        return iter(self.by_id.values())

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, task_id: object) -> bool:
        return task_id in self.by_id

    def __getitem__(self, task_id: TaskId) -> Task:
        try:
            return self.by_id[task_id]
        except KeyError:
            raise TaskNotFound(task_id=task_id) from None

    @cached_property
    def root(self) -> Task:
        return next(task for task in self if task.parent_id is None)

    @cached_property
    def children(self) -> dict[TaskId, list[TaskId]]:
        """The ids of each parent's children, in creation order; of steps, in the order of the program."""
        found: dict[TaskId, list[TaskId]] = {}
        for task in self:
            if task.parent_id is not None:
                found.setdefault(task.parent_id, []).append(task.id)
        for siblings in found.values():
            # Steps are stored as they end; they are shown as the program has them.
            if is_step(self.by_id[siblings[0]]):
                siblings.sort(key=lambda task_id: place_of(self.by_id[task_id]))
        return found

    @cached_property
    def dependencies(self) -> dict[TaskId, Sequence[TaskId]]:
        """The ids each task depends on."""
        return {task.id: [dependency.id for dependency in task.dependencies] for task in self}

    @cached_property
    def dependents(self) -> dict[TaskId, list[TaskId]]:
        """The ids that depend on each task."""
        return graph.reverse(self.dependencies)

    def subtree(self, task_id: TaskId) -> list[TaskId]:
        """The task and all its descendants, parents before children."""
        return graph.reachable([self[task_id].id], self.children)

    def _repr_html_(self) -> str:
        """The tree, as a notebook shows it."""
        return flow_html(self)

    def walk(self) -> Iterator[tuple[Task, int]]:
        """Every task with its depth, as a printed tree shows them."""
        stack = [(self.root.id, 0)]
        while stack:
            task_id, depth = stack.pop()
            yield self.by_id[task_id], depth
            stack.extend((child, depth + 1) for child in reversed(self.children.get(task_id, [])))
