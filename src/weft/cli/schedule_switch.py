"""`weft schedule enable` and `weft schedule disable`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.saying import echo
from weft.cli.text import when
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def enable(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Switch a task's schedule on; times that passed while it was off are not made up for."""
    _switch(task_id, is_on=True, db=db, user=user, is_json=is_json)


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def disable(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Switch a task's schedule off."""
    _switch(task_id, is_on=False, db=db, user=user, is_json=is_json)


def _switch(task_id: TaskId, *, is_on: bool, db: str | None, user: str | None, is_json: bool) -> None:
    # Imported here: --help must not pay for it.
    from weft.tasks.json_text import task_object

    task = with_app(db, user, lambda app: app.update(task_id, {"schedule_enabled": is_on}))
    if is_json:
        print_json(task_object(task))
    elif is_on:
        echo(f"on; next: {when(task.next_run_at)}")
    else:
        echo("off")
