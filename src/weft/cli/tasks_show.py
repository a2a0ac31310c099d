"""`weft tasks show`."""

from typing import TYPE_CHECKING

import click
import msgspec

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.saying import echo
from weft.cli.text import printable, printable_lines
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.app import App
    from weft.tasks.record import Task


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--all", "is_all", is_flag=True, help="Show empty fields too.")
@store_options
def show(task_id: TaskId, is_all: bool, db: str | None, user: str | None, is_json: bool) -> None:
    """Show everything about one task.

    Of a step of a run also: where in the program it stands, what was asked, and where its result came from.
    """
    # Imported here: `weft tasks show --help` must not pay for them.
    from weft.cli.step_words import step_lines
    from weft.tasks.json_text import task_object
    from weft.tasks.questions import is_open_question

    async def read(app: "App") -> "tuple[Task, list[str]]":
        task = await app.get(task_id)
        return task, [] if is_json else await step_lines(app, task)

    task, lines = with_app(db, user, read)
    record = task_object(task)
    if is_json:
        print_json(record)
        return
    width = max(map(len, record))
    for field, value in record.items():
        if is_all or not _is_empty(value):
            shown = _shown(value) if field != "error" else printable_lines(str(value), indent=width + 2)
            echo(f"{field:<{width}}  {shown}")
    for line in lines:
        echo(line)
    if is_open_question(task):
        echo(f"it waits for an answer: weft tasks answer {task.id} TEXT")


def _is_empty(value: object) -> bool:
    """Whether there is nothing to show; 0 is something, an urgent priority for one."""
    return value is None or value is False or value == {} or value == []


def _shown(value: object) -> str:
    if isinstance(value, str):
        return printable(value)
    return printable(msgspec.json.encode(value).decode())
