"""`weft tasks tree`."""

from typing import TYPE_CHECKING

import click

from weft.cli.display.output import STATUS_COLOURS, counts_line, plural, print_json
from weft.cli.invoke import echo, styled, with_app
from weft.cli.options import TASK_ID, store_options
from weft.ids import TaskId

if TYPE_CHECKING:
    from weft.app.app import App
    from weft.tasks.flow import Flow
    from weft.tasks.summary import FlowSummary


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option(
    "--limit", type=click.IntRange(1), default=500, show_default=True, help="Maximum number of rows."
)
@store_options
def tree(task_id: TaskId, limit: int, db: str | None, user: str | None, is_json: bool) -> None:
    """Show the flow of a task as a tree.

    Marks: · pending, ▶ in progress, ✔ completed, ✘ failed, ■ cancelled. `<- a, b` lists dependencies,
    optional ones in parentheses. [blocked] marks a task whose dependency failed or was cancelled,
    [waits for an answer] a question to a person.
    """
    if is_json:
        # Imported here: keeps --help fast.
        import msgspec

        from weft.tasks.flow import nested_json

        print_json(msgspec.Raw(nested_json(with_app(db, user, lambda app: app.flow_of(task_id)))))
        return

    async def read(app: "App") -> "tuple[Flow, FlowSummary]":
        root_id = (await app.get(task_id)).task_tree_id or task_id
        return await app.flow_of(root_id, limit=limit), await app.summary(root_id)

    flow, summary = with_app(db, user, read)
    shown = print_tree(flow)
    total = sum(summary.counts.values())
    if shown < total:
        echo(f"... {plural(total - shown, 'more task')}; see --limit")
    echo(counts_line(summary))


def print_tree(flow: "Flow", *, to_stderr: bool = False) -> int:
    """Print the tree of a flow and return the number of rows."""
    from weft.cli.display.tree import tree_rows
    from weft.tasks.summary import blocked

    count = 0
    for row in tree_rows(flow, blocked(flow)):
        label = styled(row.label, fg=STATUS_COLOURS[row.status])
        echo(row.branches, label, "  ", styled(row.facts, dim=True), err=to_stderr)
        count += 1
    return count
