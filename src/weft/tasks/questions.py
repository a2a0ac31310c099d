"""Questions to people: steps that wait until somebody has answered, and the tasks that rest meanwhile."""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.record import Status, Task, evolve
from weft.tasks.steps import DUE_AT, step_fields

QUESTION = "question"
"""The kind of such a step."""

ANSWER = "answer"


def is_question(task: Task) -> bool:
    """Whether the record is a question to a person."""
    return step_fields(task).get("kind") == QUESTION


def is_open_question(task: Task) -> bool:
    """Whether it is one that nobody has answered yet."""
    return task.status is Status.IN_PROGRESS and is_question(task)


def open_questions(tasks: Iterable[Task]) -> tuple[Task, ...]:
    """Those of the tasks that wait for an answer."""
    return tuple(task for task in tasks if is_open_question(task))


def question_text(task: Task) -> str:
    """What is asked."""
    return str(task.inputs.get(QUESTION) or task.name)


def answer_of(task: Task) -> str:
    """What was answered."""
    return str((task.result or {}).get(ANSWER, ""))


def due_at(task: Task) -> datetime | None:
    """Until when a question can be answered; None: for ever."""
    text = step_fields(task).get(DUE_AT)
    try:
        due = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return due if due is None or due.tzinfo is not None else due.replace(tzinfo=UTC)


def is_overdue(task: Task, now: datetime) -> bool:
    """Whether a question has waited longer than the time limit around it allows."""
    due = due_at(task)
    return due is not None and now >= due


def woken(flow: Flow, until: Collection[TaskId]) -> tuple[Task, ...]:
    """The tasks that rest until one of the questions has ended, as they are when they rest no longer.

    They go on as soon as one has: what follows from it need not wait for the others.
    """
    resting = [
        task
        for task in flow
        if task.status is Status.PENDING and any(one.id in until for one in task.dependencies)
    ]
    return tuple(_awake(flow, task) for task in resting)


def _awake(flow: Flow, task: Task) -> Task:
    own = [one for one in task.dependencies if one.id not in flow or not is_question(flow[one.id])]
    return evolve(task, dependencies=tuple(own))
