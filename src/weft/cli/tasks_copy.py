"""`weft tasks copy`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_flow
from weft.cli.running import with_app
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--link",
    "linked",
    multiple=True,
    type=TASK_ID,
    metavar="ID",
    help="Link this completed task instead of copying it, so that it keeps its result. May be repeated.",
)
@click.option(
    "--with-dependencies", is_flag=True, help="Take along what the copied tasks depend on elsewhere."
)
@store_options
def copy(
    task_id: TaskId,
    linked: tuple[TaskId, ...],
    with_dependencies: bool,
    db: str | None,
    user: str | None,
    is_json: bool,
) -> None:
    """Copy a task and all below it as a new pending flow: how completed work is run again."""
    flow = with_app(
        db, user, lambda app: app.copy(task_id, linked=linked, with_dependencies=with_dependencies)
    )
    print_flow(flow, is_json=is_json, did="copied to")
