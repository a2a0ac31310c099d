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


def _read_answer() -> str:
    try:
        return read_input(STDIN).decode("utf-8")
    except UnicodeDecodeError as error:  # only one answer is accepted, so never store a damaged one
        raise UnreadableFile(f"standard input is not UTF-8 text: {error.reason}") from None


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.argument("text", required=False, metavar="[TEXT|-]")
@store_options
def answer(task_id: TaskId, text: str | None, db: str | None, user: str | None, is_json: bool) -> None:
    """Answer a question that a run asks a person.

    ID is the id of the question, or of the run if it has asked only one question. TEXT is the answer; - reads
    it from standard input. Without TEXT, the question is shown and a line is read from the terminal. Then a
    worker (weft serve) resumes the run; without a worker, resume it with `weft run --resume`.

    A question can be answered once. Repeating the same answer changes nothing; another answer is an error.

    \b
    Examples:
      weft tasks answer 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d "yes, deploy it"
      weft tasks answer 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d - < answer.txt
    """
    if text == STDIN:
        text = _read_answer().removesuffix("\n")
    if text is None and (is_json or not sys.stdin.isatty()):
        raise click.UsageError("give the answer as TEXT, or - to read it from standard input")
    answered = with_app(db, user, lambda app: _answer(app, task_id, text))
    question = answered.question
    if is_json:
        from weft.tasks.parsing.problems import task_object

        print_json(task_object(question))
    else:
        verb = "already answered with this text, nothing changed:" if answered.is_repeated else "answered"
        echo(f"{verb} {question.id}; resume with: weft run --resume {question.task_tree_id}")


async def _answer(app: "App", task_id: TaskId, text: str | None) -> "Answered":
    from weft.app.questions import answer, find_question
    from weft.tasks.questions import question_text

    question = await find_question(app, task_id, is_shown=text is None)
    if text is None:
        text = click.prompt(printable(question_text(question)), default="", show_default=False, err=True)
    return await answer(app, question.id, text)
