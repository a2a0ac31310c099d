"""`weft tasks watch`."""

from typing import TYPE_CHECKING

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import counts_line, print_json
from weft.cli.running import with_app
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.app import App
    from weft.tasks.summary import FlowSummary


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def watch(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Watch the flow a task is in while another process runs it, until it ends; Ctrl-C leaves it running."""
    summary = with_app(db, user, lambda app: _watch(app, task_id))
    if is_json:
        print_json(summary)
    else:
        click.echo(f"{summary.root_id}  {counts_line(summary)}")


async def _watch(app: "App", task_id: TaskId) -> "FlowSummary":
    from weft.cli.live import watching

    root_id = (await app.get(task_id)).task_tree_id or task_id
    async with watching(app, root_id):
        async for _ in app.watch(root_id):
            pass
    return await app.summary(root_id)
