"""`weft tasks cancel`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.saying import echo
from weft.cli.text import plural
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("--reason", default="cancelled", show_default=True, help="Stored as the tasks' error.")
@store_options
def cancel(task_id: TaskId, reason: str, db: str | None, user: str | None, is_json: bool) -> None:
    """Cancel a task and everything below it that has not ended; for a flow, give its root.

    A pending task is cancelled at once. A running one too, and the process that runs it stops it within a
    second or so.
    """
    cancelled = with_app(db, user, lambda app: app.cancel(task_id, reason=reason))
    if is_json:
        print_json({"cancelled": cancelled})
    else:
        echo(f"cancelled {plural(len(cancelled), 'task')}")
