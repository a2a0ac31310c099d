"""`weft tasks delete`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.saying import echo
from weft.cli.text import plural
from weft.ids import TaskId


@click.command()
@click.argument("task_ids", metavar="ID...", type=TASK_ID, nargs=-1, required=True)
@click.option("--with-children", is_flag=True, help="Delete everything below the tasks too.")
@store_options
def delete(
    task_ids: tuple[TaskId, ...], with_children: bool, db: str | None, user: str | None, is_json: bool
) -> None:
    """Delete pending tasks that nothing needs: no children, no dependents, no copies elsewhere.

    All given tasks are deleted, or none.
    """
    deleted = with_app(db, user, lambda app: app.delete(task_ids, with_children=with_children))
    if is_json:
        print_json({"deleted": deleted})
    else:
        echo(f"deleted {plural(len(deleted), 'task')}")
