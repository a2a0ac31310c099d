"""Questions to people: steps that wait for an answer, and the tasks that are suspended meanwhile."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from weft.errors import RequestError
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
    resumed = []
    for task in flow:
        needed = task.dependencies
        if task.status is Status.PENDING and any(one.id in until for one in needed):
            own = (one for one in needed if not (one.id in flow and is_question(flow[one.id])))
            resumed.append(evolve(task, dependencies=tuple(own)))
    return tuple(resumed)


class SeveralQuestions(RequestError):
    """A task has asked several questions: the answer must give the id of its question."""

    code = "several-questions"

    def __init__(self, questions: Sequence[Task]) -> None:
        self.questions = tuple((task.id, question_text(task)) for task in questions)
        if len(self.questions) > 1:
            reason = f"{len(self.questions)} questions wait for an answer: give the id of one of them"
        else:
            reason = f"the task has asked several questions: give the id of the open one, {questions[0].id}"
        super().__init__(reason)

    def problems(self) -> list[dict[str, Any]]:
        return [{"path": task_id, "reason": text} for task_id, text in self.questions]


class NothingAsked(RequestError):
    """No question of a run waits for an answer."""

    code = "nothing-asked"

    def __init__(self, *, task_id: TaskId) -> None:
        super().__init__(f"task {task_id} has no open question")
        self.task_id = task_id


def choose_question(flow: Flow, task_id: TaskId, is_shown: bool) -> Task:
    """Return the only question asked in the subtree of the task.

    Raise NothingAsked, or SeveralQuestions if the subtree has asked more than one, even if only one is open:
    an answer that is delivered twice would otherwise go to the next question. With `is_shown` (the person
    sees the question) a single open question is accepted.
    """
    asked = [flow[below] for below in flow.subtree(task_id) if is_question(flow[below])]
    waiting = open_questions(asked)
    if len(asked) == 1 or (is_shown and len(waiting) == 1):
        return waiting[0] if waiting else asked[0]
    if not waiting:
        raise NothingAsked(task_id=task_id)
    raise SeveralQuestions(waiting)
