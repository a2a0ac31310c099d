"""`weft tasks retry`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.saying import echo
from weft.cli.text import plural
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def retry(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Make a failed task, and the failed ones below it, pending again; `weft flow run ID` then runs them."""
    retried = with_app(db, user, lambda app: app.retry(task_id))
    if is_json:
        print_json({"retried": retried})
    else:
        echo(f"{plural(len(retried), 'task')} pending again; go on with: weft flow run {task_id}")
