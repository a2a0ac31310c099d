"""What people do with runs that ask them something: see the questions, answer them."""

from weft.app import App
from weft.ids import TaskId
from weft.secrets.references import register_named
from weft.secrets.registry import is_any, redact_json
from weft.tasks.operations import AnswerQuestion, WakeTasks
from weft.tasks.questions import is_question, open_questions
from weft.tasks.record import Task


async def questions_of(app: App, task_id: TaskId) -> tuple[Task, ...]:
    """The task if it is a question, open or not; else the open questions of the flow that it is in."""
    task = await app.get(task_id)
    return (task,) if is_question(task) else open_questions(await app.flow_of(task_id))


async def answer(app: App, task_id: TaskId, text: str) -> Task:
    """Answer a question that a program or a model asked a person: who asked goes on. The question then."""
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
