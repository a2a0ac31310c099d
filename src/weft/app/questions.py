"""Questions of runs to people: list and answer them, and resume the suspended tasks."""

from collections.abc import Sequence
from typing import Any

from weft.app.app import App
from weft.errors import RequestError
from weft.ids import TaskId
from weft.secrets.references import register_named
from weft.secrets.registry import has_secrets, redact_json
from weft.tasks.operations import Answered, AnswerQuestion, ResumeSuspended
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


async def questions_of(app: App, task_id: TaskId) -> tuple[Task, ...]:
    """Return the task itself if it is a question, otherwise the open questions of its flow."""
    task = await app.get(task_id)
    return (task,) if is_question(task) else open_questions(await app.flow_of(task_id))


async def find_question(app: App, task_id: TaskId, *, is_shown: bool = False) -> Task:
    """Return the question with this id, or the only question asked in the subtree of the task.

    Raise NothingAsked, or SeveralQuestions if the subtree has asked more than one, even if only one is open:
    an answer that is delivered twice would otherwise go to the next question. With `is_shown` (the person
    sees the question) a single open question is accepted.
    """
    task = await app.get(task_id)
    if is_question(task):
        return task
    flow = await app.flow_of(task_id)
    asked = [flow[below] for below in flow.subtree(task_id) if is_question(flow[below])]
    waiting = open_questions(asked)
    if len(asked) == 1 or (is_shown and len(waiting) == 1):
        return waiting[0] if waiting else asked[0]
    if not waiting:
        raise NothingAsked(task_id=task_id)
    raise SeveralQuestions(waiting)


async def answer(app: App, task_id: TaskId, text: str) -> Answered:
    """Answer a question, so that its run can continue; repeating the same answer changes nothing."""
    # This process may not have run the task, so register its secrets before redacting the answer.
    for task in await app.flow_of(task_id):
        register_named(task.inputs)
    text = redact_json(text) if has_secrets() else text
    operation = AnswerQuestion(task_id=task_id, answer=text, now=app.now())
    return await app.store.operate(operation, owner=app.owner)


async def resume_suspended(app: App, task_id: TaskId, *, only_overdue: bool = False) -> None:
    """Resume the tasks of a flow that are suspended for a person, so that this process asks again.

    With `only_overdue`, resume only tasks with a question whose time limit has expired.
    """
    overdue_at = app.now() if only_overdue else None
    await app.store.operate(ResumeSuspended(task_id, overdue_at), owner=app.owner)
