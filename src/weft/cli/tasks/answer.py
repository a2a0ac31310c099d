"""`weft tasks answer`."""

import sys
from typing import TYPE_CHECKING

import click

from weft.cli.display.output import print_json, printable
from weft.cli.invoke import echo, with_app
from weft.cli.options import TASK_ID, UnreadableFile, read_input, store_options
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.tasks.operations import Answered

STDIN = "-"


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

    ID is that of the question, or of the run when it has asked only one. TEXT is the answer; - reads it
    from standard input. Without TEXT the question is shown and a line is read from the terminal. The same
    answer given again changes nothing. What runs flows of the store (weft serve) takes the run up again;
    else weft run --resume does.
    """
    if text == STDIN:
        text = _told().removesuffix("\n")
    if text is None and (is_json or not sys.stdin.isatty()):
        raise click.UsageError("give the answer, or - to read it from standard input")
    answered = with_app(db, user, lambda app: _answer(app, task_id, text))
    question = answered.question
    if is_json:
        from weft.tasks.parsing.problems import task_object

        print_json(task_object(question))
    else:
        said = "answered before with this text, nothing changed:" if answered.is_repeated else "answered"
        echo(f"{said} {question.id}; resume with: weft run --resume {question.task_tree_id}")


async def _answer(app: "App", task_id: TaskId, text: str | None) -> "Answered":
    from weft.app.questions import answer, find_question
    from weft.tasks.questions import question_text

    question = await find_question(app, task_id, is_shown=text is None)
    if text is None:
        text = click.prompt(printable(question_text(question)), default="", show_default=False, err=True)
    return await answer(app, question.id, text)
