"""`weft tasks events`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from weft.cli.display.output import print_json, printable, when
from weft.cli.invoke import echo, with_app
from weft.cli.options import COUNT, TASK_ID, store_options
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.store.protocol import EventFilter
    from weft.tasks.events import Event


@click.command()
@click.argument("task_id", metavar="[ID]", type=TASK_ID, required=False)
@click.option(
    "--flow", "tree", type=TASK_ID, metavar="ID", help="Show events of the whole flow with this root id."
)
@click.option("--after", type=COUNT, default=0, help="Show only events with a higher number.")
@click.option("--limit", type=COUNT, default=1000, show_default=True, help="Maximum number of events.")
@store_options
def events(
    task_id: TaskId | None,
    tree: TaskId | None,
    after: int,
    limit: int,
    db: str | None,
    user: str | None,
    is_json: bool,
) -> None:
    """Show the events of a task, of a flow, or of the whole store, oldest first."""
    # Imported here: keeps --help fast.
    from weft.store.protocol import EventFilter

    wanted = EventFilter(after=after, tree=tree, task=task_id, limit=limit)
    found = with_app(db, user, lambda app: _events(app, wanted))
    if is_json:
        print_json({"events": list(found)})
        return
    for event in found:
        facts = printable(msgspec.json.encode(event.facts).decode(), width=100) if event.facts else ""
        echo(f"{event.seq:>6}  {when(event.at)}  {event.task_id}  {event.type:<16}  {facts}".rstrip())
    if not found:
        echo("no events")


async def _events(app: "App", wanted: "EventFilter") -> "Sequence[Event]":
    found = await app.events(wanted)
    for task_id in (wanted.task, wanted.tree):
        if task_id is not None and not found:
            await app.get(task_id)  # raises if the task does not exist; a deleted task still has events
    return found
