"""`weft tasks cancel`, `retry`, `link`, `archive` and `delete`."""

import click

from weft.cli.display.output import plural, print_flow, print_json
from weft.cli.invoke import echo, with_app
from weft.cli.options import TASK_ID, store_options
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


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def link(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Make a new flow that carries the results of a completed task and all below it.

    Nothing is run again: each new task has its own id and the result of its source.
    """
    print_flow(with_app(db, user, lambda app: app.link(task_id)), is_json=is_json, did="linked as")


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def archive(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Make a frozen deep copy of a completed task and all below it.

    The store refuses any change to an archive; copy it to work with it.
    """
    print_flow(with_app(db, user, lambda app: app.archive(task_id)), is_json=is_json, did="archived as")


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
