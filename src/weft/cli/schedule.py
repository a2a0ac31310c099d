"""`weft schedule`: list schedules, show due times, enable and disable."""

from datetime import UTC, datetime

import click

from weft.app.app import TaskFilter
from weft.cli.display.output import print_json, print_result, print_table, printable, when
from weft.cli.invoke import echo
from weft.cli.main import LazyGroup
from weft.cli.options import COUNT, TASK_ID
from weft.cli.store_access import StoreOptions, store_options
from weft.ids import TaskId
from weft.tasks.parsing.problems import task_object
from weft.tasks.schedules.schedule import NoSchedule, due_between, schedule_of, time_zone


@click.group(
    cls=LazyGroup,
)
def schedule() -> None:
    """List schedules, enable and disable them; `weft serve --no-http` fires them.

    A task with a schedule is a definition and stays pending. Each time it is due, a copy of it runs: a copy
    of the whole flow if the task is its root, otherwise of the task and its dependencies.
    """


@schedule.command("list", short_help="List tasks with an enabled schedule.")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="Maximum number of rows.")
@store_options
def list_schedules(limit: int, store: StoreOptions) -> None:
    """List tasks with an enabled schedule, with the next due time and the time of the last firing."""
    page = store.run(lambda app: app.list(TaskFilter(only_scheduled=True, limit=limit)))
    if store.is_json:
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


@schedule.command("next", short_help="Show the next due times of a task.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "-n", "count", type=click.IntRange(1, 1000), default=5, show_default=True, help="Number of due times."
)
@store_options
def next_times(task_id: TaskId, count: int, store: StoreOptions) -> None:
    """Show the next due times of a task, also while its schedule is disabled."""
    task = store.run(lambda app: app.get(task_id))
    schedule = schedule_of(task)
    if schedule is None:
        raise NoSchedule(task_id=task_id)
    now = datetime.now(UTC)
    times = due_between(schedule, after=now, until=datetime.max.replace(tzinfo=UTC), limit=count)
    if store.is_json:
        print_json({"task_id": task_id, "enabled": task.schedule_enabled, "next": times})
        return
    for at in times:
        echo(when(at))
    if not times:
        echo("no more due times")
    if not task.schedule_enabled:
        echo(f"the schedule is disabled; enable it with: weft schedule enable {task_id}", err=True)


@schedule.command(short_help="Enable the schedule of a task.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def enable(task_id: TaskId, store: StoreOptions) -> None:
    """Enable the schedule of a task; due times that passed while it was disabled are skipped."""
    _switch(task_id, is_on=True, store=store)


@schedule.command(short_help="Disable the schedule of a task.")
@click.argument("task_id", metavar="ID", type=TASK_ID)
@store_options
def disable(task_id: TaskId, store: StoreOptions) -> None:
    """Disable the schedule of a task; runs that it has started continue."""
    _switch(task_id, is_on=False, store=store)


def _switch(task_id: TaskId, *, is_on: bool, store: StoreOptions) -> None:
    task = store.run(lambda app: app.update(task_id, {"schedule_enabled": is_on}))
    text = f"enabled; next due: {when(task.next_run_at)}" if is_on else "disabled"
    print_result(task_object(task), text, is_json=store.is_json)
