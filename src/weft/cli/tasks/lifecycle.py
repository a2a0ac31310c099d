"""`weft tasks cancel`, `retry`, `link`, `archive` and `delete`."""

import click

from weft.cli.display.output import plural, print_flow, print_json
from weft.cli.invoke import echo, with_app
from weft.cli.options import TASK_ID, store_options
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--reason", default="cancelled", show_default=True, help="Reason, stored as the error of the tasks."
)
@store_options
def cancel(task_id: TaskId, reason: str, db: str | None, user: str | None, is_json: bool) -> None:
    """Cancel a task and all unfinished tasks of its subtree; to cancel a flow, give the id of its root.

    Pending and running tasks are recorded as cancelled at once. The worker of a running task stops it within
    about a second.
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
    """Reset a failed task and the failed tasks of its subtree to pending.

    `weft flow run ID` then runs them; `weft run --resume ID` does both for a program run.
    """
    retried = with_app(db, user, lambda app: app.retry(task_id))
    if is_json:
        print_json({"retried": retried})
    else:
        echo(f"{plural(len(retried), 'task')} reset to pending; resume with: weft flow run {task_id}")


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def link(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Create a new flow with the results of a completed task and its subtree.

    Nothing is run: each new task has its own id and the result of the task it links to.
    """
    print_flow(with_app(db, user, lambda app: app.link(task_id)), is_json=is_json, did="linked as")


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def archive(task_id: TaskId, db: str | None, user: str | None, is_json: bool) -> None:
    """Create a frozen deep copy of a completed task and its subtree, for audit.

    An archive cannot be changed; use `weft tasks copy` to work with its contents.
    """
    print_flow(with_app(db, user, lambda app: app.archive(task_id)), is_json=is_json, did="archived as")


@click.command()
@click.argument("task_ids", metavar="ID...", type=TASK_ID, nargs=-1, required=True)
@click.option("--with-children", is_flag=True, help="Also delete the subtrees of the tasks.")
@store_options
def delete(
    task_ids: tuple[TaskId, ...], with_children: bool, db: str | None, user: str | None, is_json: bool
) -> None:
    """Delete pending tasks; all of their children, dependents and copies must be deleted with them.

    Either all given tasks are deleted, or none.
    """
    deleted = with_app(db, user, lambda app: app.delete(task_ids, with_children=with_children))
    if is_json:
        print_json({"deleted": deleted})
    else:
        echo(f"deleted {plural(len(deleted), 'task')}")
