"""`weft tasks export`."""

from pathlib import Path

import click

from weft.cli.options import TASK_ID, UnreadableFile, store_options
from weft.cli.output import print_bytes
from weft.cli.running import with_app
from weft.ids import TaskId


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("-o", "--output", metavar="FILE", help="Write to a file instead of standard output.")
@store_options
def export(task_id: TaskId, output: str | None, db: str | None, user: str | None, is_json: bool) -> None:
    """Write the flow a task is in as JSON that `weft flow submit` reads: {"task": ..., "children": [...]}.

    A tree deeper than 200 levels is written as a flat list, which says the same.
    """
    # Imported here: `weft tasks export --help` must not pay for it.
    from weft.tasks.nested import nested_json

    text = nested_json(with_app(db, user, lambda app: app.flow_of(task_id)))
    if output is None:
        print_bytes(text)
        return
    try:
        Path(output).write_bytes(text + b"\n")
    except OSError as error:
        raise UnreadableFile(f"{output}: {error.strerror}") from error
