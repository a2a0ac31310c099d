"""`weft schedule list`."""

import click

from weft.cli.options import COUNT, store_options
from weft.cli.output import print_json, print_table
from weft.cli.running import with_app
from weft.cli.saying import echo
from weft.cli.text import printable, when


@click.command("list")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="How many at most.")
@store_options
def list_schedules(limit: int, db: str | None, user: str | None, is_json: bool) -> None:
    """List tasks whose schedule is on, with the next and the last time."""
    # Imported here: `weft schedule list --help` must not pay for them.
    from weft.store.protocol import TaskFilter
    from weft.tasks.json_text import task_object
    from weft.tasks.schedule_policies import time_zone

    page = with_app(db, user, lambda app: app.list(TaskFilter(only_scheduled=True, limit=limit)))
    if is_json:
        print_json({"tasks": [task_object(task) for task in page.tasks], "total": page.total})
        return
    if not page.tasks:
        echo("no schedules")
        return
    rows = [
        (
            task.id,
            printable(task.name, width=30),
            f"{task.schedule_type} {printable(task.schedule_expression or '', width=30)}",
            time_zone(task.params),
            when(task.next_run_at) if task.next_run_at else "ended",
            when(task.last_run_at),
            str(task.run_count),
        )
        for task in page.tasks
    ]
    print_table(("ID", "NAME", "SCHEDULE", "ZONE", "NEXT", "LAST", "RUNS"), rows)
