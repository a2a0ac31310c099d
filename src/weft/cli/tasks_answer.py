"""`weft tasks answer`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from weft.cli.options import TASK_ID, UnreadableFile, read_input, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.text import printable
from weft.errors import RequestError
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.app import App
    from weft.tasks.record import Task

STDIN = "-"


class SeveralQuestions(RequestError):
    """A run waits for more than one answer: which one is meant must be said."""

    code = "several-questions"

    def __init__(self, questions: "Sequence[Task]") -> None:
        from weft.tasks.questions import question_text

        self.questions = tuple((task.id, question_text(task)) for task in questions)
        super().__init__(f"{len(self.questions)} questions wait for an answer; give the id of one")

    def problems(self) -> list[dict[str, Any]]:
        return [{"path": task_id, "reason": text} for task_id, text in self.questions]


class NothingAsked(RequestError):
    """No question of a run waits for an answer."""

    code = "nothing-asked"

    def __init__(self, *, task_id: TaskId) -> None:
        super().__init__(f"no question of task {task_id} waits for an answer")
        self.task_id = task_id


def _told() -> str:
    try:
        return read_input(STDIN).decode("utf-8")
    except UnicodeDecodeError as error:  # an answer counts once: one that is damaged must not
        raise UnreadableFile(f"standard input is no UTF-8 text: {error.reason}") from None


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("text", required=False, metavar="[TEXT|-]")
@store_options
def answer(task_id: TaskId, text: str | None, db: str | None, user: str | None, is_json: bool) -> None:
    """Answer a question that a program or a model asks a person; the run that waits for it goes on.

    ID is that of the question, or of the run when only one of its questions waits. TEXT is the answer; -
    reads it from standard input. Without TEXT the question is shown and a line is read from the terminal.
    What runs flows of the store (weft serve) takes the run up again; else weft run --resume does.
    """
    if text == STDIN:
        text = _told().removesuffix("\n")
    if text is None and (is_json or not sys.stdin.isatty()):
        raise click.UsageError("give the answer, or - to read it from standard input")
    question = with_app(db, user, lambda app: _answer(app, task_id, text))
    if is_json:
        from weft.tasks.json_text import task_object

        print_json(task_object(question))
    else:
        root_id = question.task_tree_id
        click.echo(f"answered {question.id}; go on with: weft run --resume {root_id}")


async def _answer(app: "App", task_id: TaskId, text: str | None) -> "Task":
    from weft import people
    from weft.tasks.questions import question_text

    questions = await people.questions_of(app, task_id)
    if len(questions) > 1:
        raise SeveralQuestions(questions)
    if not questions:
        raise NothingAsked(task_id=task_id)
    if text is None:
        text = click.prompt(printable(question_text(questions[0])), default="", show_default=False, err=True)
    return await people.answer(app, questions[0].id, text)
