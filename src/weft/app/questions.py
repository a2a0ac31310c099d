"""What people do with runs that ask them something: see the questions, answer them."""

from collections.abc import Sequence
from typing import Any

from weft.app.app import App
from weft.errors import RequestError
from weft.ids import TaskId
from weft.secrets.references import register_named
from weft.secrets.registry import is_any, redact_json
from weft.tasks.operations import Answered, AnswerQuestion, WakeTasks
from weft.tasks.questions import is_question, open_questions, question_text
from weft.tasks.record import Task


class SeveralQuestions(RequestError):
    """A task has asked more than one question: an answer must name its own."""

    code = "several-questions"

    def __init__(self, questions: Sequence[Task]) -> None:
        self.questions = tuple((task.id, question_text(task)) for task in questions)
        if len(self.questions) > 1:
            reason = f"{len(self.questions)} questions wait for an answer; give the id of one"
        else:
            reason = f"others were asked before: answer question {questions[0].id} by its own id"
        super().__init__(reason)

    def problems(self) -> list[dict[str, Any]]:
        return [{"path": task_id, "reason": text} for task_id, text in self.questions]


class NothingAsked(RequestError):
    """No question of a run waits for an answer."""

    code = "nothing-asked"

    def __init__(self, *, task_id: TaskId) -> None:
        super().__init__(f"no question of task {task_id} waits for an answer")
        self.task_id = task_id


async def questions_of(app: App, task_id: TaskId) -> tuple[Task, ...]:
    """The task if it is a question, open or not; else the open questions of the flow that it is in."""
    task = await app.get(task_id)
    return (task,) if is_question(task) else open_questions(await app.flow_of(task_id))


async def find_question(app: App, task_id: TaskId, *, is_shown: bool = False) -> Task:
    """Return the question that an id names: its own, or the only one that was asked at or below a task.

    With several, also when all but one have been answered, the id of the task names none: an answer that is
    delivered a second time would go to the next question. Only a person who is shown the open one may answer.
    Raises NothingAsked or SeveralQuestions.
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
    """Answer the question with this id, which lets its run continue; the same answer twice counts once."""
    # Who answers in another process has not run the task: the secrets it was given are not known here yet.
    for task in await app.flow_of(task_id):
        register_named(task.inputs)
    text = redact_json(text) if is_any() else text
    operation = AnswerQuestion(task_id=task_id, answer=text, now=app.now())
    return await app.store.operate(operation, owner=app.owner)


async def wake(app: App, task_id: TaskId, *, only_overdue: bool = False) -> None:
    """Have the tasks of a flow evaluated again that rest for a person: somebody is here who can be asked.

    Only those whose time limit is reached, if nobody is.
    """
    overdue_at = app.now() if only_overdue else None
    await app.store.operate(WakeTasks(task_id, overdue_at), owner=app.owner)
