"""`weft schedule next`."""

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.saying import echo
from weft.cli.text import when
from weft.ids import TaskId


@click.command("next")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "-n", "count", type=click.IntRange(1, 1000), default=5, show_default=True, help="How many times."
)
@store_options
def next_times(task_id: TaskId, count: int, db: str | None, user: str | None, is_json: bool) -> None:
    """Show when a task is due next, whether its schedule is on or not."""
    # Imported here: `weft schedule next --help` must not pay for them.
    from datetime import UTC, datetime

    from weft.tasks.schedules import NoSchedule, due_between, schedule_of

    task = with_app(db, user, lambda app: app.get(task_id))
    schedule = schedule_of(task)
    if schedule is None:
        raise NoSchedule(task_id=task_id)
    now = datetime.now(UTC)
    times = due_between(schedule, after=now, until=datetime.max.replace(tzinfo=UTC), limit=count)
    if is_json:
        print_json({"task_id": task_id, "enabled": task.schedule_enabled, "next": times})
        return
    for at in times:
        echo(when(at))
    if not times:
        echo("never again")
    if not task.schedule_enabled:
        echo(f"(the schedule is off: weft schedule enable {task_id})", err=True)
