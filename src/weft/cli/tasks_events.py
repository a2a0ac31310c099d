"""`weft tasks events`."""

import click
import msgspec

from weft.cli.options import TASK_ID, store_options
from weft.cli.output import print_json
from weft.cli.running import with_app
from weft.cli.text import printable, when
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="[ID]", type=TASK_ID, required=False)
@click.option("--flow", "tree", type=TASK_ID, metavar="ID", help="Events of the whole flow with this root.")
@click.option("--after", type=click.IntRange(0), default=0, help="Only events with a higher number.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="How many at most.")
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
    """Show what happened to a task, a flow, or everything, oldest first."""
    # Imported here: `weft tasks events --help` must not pay for it.
    from weft.store.protocol import EventFilter

    wanted = EventFilter(after=after, tree=tree, task=task_id, limit=limit)
    found = with_app(db, user, lambda app: app.events(wanted))
    if is_json:
        print_json({"events": list(found)})
        return
    for event in found:
        facts = printable(msgspec.json.encode(event.facts).decode(), width=100) if event.facts else ""
        click.echo(f"{event.seq:>6}  {when(event.at)}  {event.task_id}  {event.type:<16}  {facts}".rstrip())
    if not found:
        click.echo("no events")
