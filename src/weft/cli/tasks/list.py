"""`weft tasks list`."""

import click

from weft.cli.display.output import plural, print_json, print_table, printable, when
from weft.cli.invoke import echo, with_app
from weft.cli.options import COUNT, TASK_ID, TEXT, store_options
from weft.ids import TaskId


@click.command("list")
@click.option(
    "--status",
    type=click.Choice(["pending", "in_progress", "completed", "failed", "cancelled"]),
    help="List only tasks with this status.",
)
@click.option(
    "--name", type=TEXT, metavar="TEXT", help="List only tasks with TEXT in their name, ignoring case."
)
@click.option(
    "--flow", "tree", type=TASK_ID, metavar="ID", help="List only tasks of the flow with this root id."
)
@click.option("--roots", "only_roots", is_flag=True, help="List only root tasks: one line per flow.")
@click.option(
    "--steps", "with_steps", is_flag=True, help="Also list the steps of runs; see `weft tasks tree`."
)
@click.option("--scheduled", "only_scheduled", is_flag=True, help="List only tasks with an enabled schedule.")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="Maximum number of rows.")
@click.option("--offset", type=COUNT, default=0, help="Number of tasks to skip.")
@store_options
def list_tasks(
    status: str | None,
    name: str | None,
    tree: TaskId | None,
    only_roots: bool,
    with_steps: bool,
    only_scheduled: bool,
    limit: int,
    offset: int,
    db: str | None,
    user: str | None,
    is_json: bool,
) -> None:
    """List tasks, newest first; the steps of runs only with --steps.

    `question` in the column DONE marks a question that waits for an answer: see `weft tasks answer`.

    \b
    Examples:
      weft tasks list --status failed
      weft tasks list --roots --name report
    """
    # Imported here: keeps --help fast.
    from weft.store.protocol import TaskFilter
    from weft.tasks.parsing.problems import task_object
    from weft.tasks.questions import is_open_question
    from weft.tasks.record import Status

    wanted = TaskFilter(
        status=Status(status) if status else None,
        name=name,
        tree=tree,
        only_roots=only_roots,
        with_steps=with_steps,
        only_scheduled=only_scheduled,
        limit=limit,
        offset=offset,
    )
    page = with_app(db, user, lambda app: app.list(wanted))
    if is_json:
        print_json({"tasks": [task_object(task) for task in page.tasks], "total": page.total})
        return
    if not page.total:
        echo("no tasks")
        return
    rows = [
        (
            task.id,
            printable(task.name, width=40),
            task.status.value,
            "question" if is_open_question(task) else f"{task.progress:.0%}",
            when(task.created_at),
        )
        for task in page.tasks
    ]
    print_table(("ID", "NAME", "STATUS", "DONE", "CREATED"), rows, status_column=2)
    if page.total > len(page.tasks):
        echo(f"{len(page.tasks):,} of {plural(page.total, 'task')}; see --limit and --offset")
