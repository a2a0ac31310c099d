"""`weft tasks link`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_flow
from weft.cli.running import with_app
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def link(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Make a new flow that carries the results of a completed task and all below it.

    Nothing is run again: each new task has its own id and the result of its source.
    """
    print_flow(with_app(db, user, lambda app: app.link(task_id)), is_json=is_json, did="linked as")
