"""Questions to people: steps that wait for an answer, and the tasks that are suspended meanwhile."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.record import Status, Task, evolve
from weft.tasks.steps import step_fields

QUESTION = "question"
"""The kind of a step that is a question."""

ANSWER = "answer"


def is_question(task: Task) -> bool:
    return step_fields(task).kind == QUESTION


def is_open_question(task: Task) -> bool:
    """Return whether the record is a question that nobody has answered yet."""
    return task.status is Status.IN_PROGRESS and is_question(task)


def open_questions(tasks: Iterable[Task]) -> tuple[Task, ...]:
    return tuple(task for task in tasks if is_open_question(task))


def question_text(task: Task) -> str:
    return str(task.inputs.get(QUESTION) or task.name)


def answer_of(task: Task) -> str:
    return str((task.result or {}).get(ANSWER, ""))


def due_at(task: Task) -> datetime | None:
    """Return the deadline of a question; None if it has no deadline."""
    text = step_fields(task).due_at
    try:
        due = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    return due if due is None or due.tzinfo is not None else due.replace(tzinfo=UTC)


def is_overdue(task: Task, now: datetime) -> bool:
    """Return whether the deadline of a question has passed."""
    due = due_at(task)
    return due is not None and now >= due


def resumed_tasks(flow: Flow, until: Collection[TaskId]) -> tuple[Task, ...]:
    """Return the tasks that are suspended until one of the questions ends, without these dependencies.

    A task is resumed as soon as one of its questions has ended, without waiting for the others.
    """
    suspended = [
        task
        for task in flow
        if task.status is Status.PENDING and any(dependency.id in until for dependency in task.dependencies)
    ]
    return tuple(_without_questions(flow, task) for task in suspended)


def _without_questions(flow: Flow, task: Task) -> Task:
    own = (needed for needed in task.dependencies if not (needed.id in flow and is_question(flow[needed.id])))
    return evolve(task, dependencies=tuple(own))
