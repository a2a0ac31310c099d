"""Which question of a run an answer is for."""

from collections.abc import Sequence
from typing import Any

from weft.errors import RequestError
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.questions import is_question, open_questions, question_text
from weft.tasks.record import Task


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
