"""`weft tasks tree`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import STATUS_COLOURS, counts_line, print_json
from weft.cli.running import with_app
from weft.cli.text import duration, plural, printable
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.tasks.flow import Flow
    from weft.tasks.record import Task

_MARKS = {"pending": "·", "in_progress": "▶", "completed": "✔", "failed": "✘", "cancelled": "■"}


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--limit", type=click.IntRange(1), default=500, show_default=True, help="How many lines at most."
)
@store_options
def tree(task_id: TaskId, limit: int, db: str | None, user: str | None, is_json: bool) -> None:
    """Show the flow a task is in as a tree.

    Marks: · pending, ▶ in progress, ✔ completed, ✘ failed, ■ cancelled. `<- a, b` names what a task waits
    for; `(a)` an optional dependency; [blocked] that it can never start.
    """
    # Imported here: `weft tasks tree --help` must not pay for them.
    from weft.tasks.nested import nested_json
    from weft.tasks.summary import blocked, summarize

    flow = with_app(db, user, lambda app: app.flow_of(task_id))
    if is_json:
        import msgspec

        print_json(msgspec.Raw(nested_json(flow)))
        return
    stuck = blocked(flow)
    for number, (line, task) in enumerate(_lines(flow)):
        if number == limit:
            click.echo(f"... {plural(len(flow) - limit, 'more task')}; see --limit")
            break
        _print_line(flow, task, line, is_blocked=task.id in stuck)
    click.echo(counts_line(summarize(flow)))


def _lines(flow: "Flow") -> "Iterator[tuple[str, Task]]":
    """Each task with the branches drawn before it."""
    stack: list[tuple[TaskId, str, str]] = [(flow.root.id, "", "")]
    while stack:
        task_id, here, below = stack.pop()
        yield here, flow[task_id]
        children = flow.children.get(task_id, [])
        for index, child in reversed(list(enumerate(children))):
            is_last = index == len(children) - 1
            stack.append(
                (child, below + ("└─ " if is_last else "├─ "), below + ("   " if is_last else "│  "))
            )


def _print_line(flow: "Flow", task: "Task", branches: str, *, is_blocked: bool) -> None:
    status = task.status.value
    mark = click.style(f"{_MARKS[status]} {printable(task.name, width=60)}", fg=STATUS_COLOURS[status])
    facts = [task.id, duration(task.started_at, task.completed_at)]
    if status == "in_progress":
        facts.append(f"{task.progress:.0%}")
    if task.origin_type is not None and task.origin_type.value != "create":
        facts.append(f"{task.origin_type} of {task.original_task_id}")
    if is_blocked:
        facts.append("[blocked]")
    waits = [
        printable(flow[dependency.id].name, width=30)
        if dependency.required
        else f"({printable(flow[dependency.id].name, width=30)})"
        for dependency in task.dependencies[:5]
    ]
    if waits:
        facts.append(f"<- {', '.join(waits)}{' ...' if len(task.dependencies) > 5 else ''}")
    if task.error:
        facts.append(printable(task.error, width=80))
    click.echo(f"{branches}{mark}  {click.style('  '.join(filter(None, facts)), dim=True)}")
