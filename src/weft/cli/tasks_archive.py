"""`weft tasks archive`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_flow
from weft.cli.running import with_app
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def archive(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Make a frozen deep copy of a completed task and all below it.

    The store refuses any change to an archive; copy it to work with it.
    """
    print_flow(with_app(db, user, lambda app: app.archive(task_id)), is_json=is_json, did="archived as")
