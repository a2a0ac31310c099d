"""`weft tasks export`."""

import os
from pathlib import Path

import click

from weft.cli.display.output import escape_json, print_bytes, print_json
from weft.cli.invoke import with_app
from weft.cli.options import TASK_ID, store_options
from weft.errors import WeftError
from weft.ids import TaskId


class UnwritableFile(WeftError):
    """A file named on the command line cannot be written."""

    code = "unwritable-file"


@click.command()
@click.argument("task_id", metavar="ID", type=TASK_ID)
@click.option("-o", "--output", metavar="FILE", help="Write to a file instead of standard output.")
@store_options
def export(task_id: TaskId, output: str | None, db: str | None, user: str | None, is_json: bool) -> None:
    """Write the flow a task is in as JSON that `weft flow submit` reads: {"task": ..., "children": [...]}.

    A tree deeper than 200 levels is written as a flat list, which says the same.
    """
    # Imported here: `weft tasks export --help` must not pay for it.
    from weft.app.export import exported
    from weft.tasks.flow import nested_json

    flow = with_app(db, user, lambda app: exported(app, task_id))
    text = escape_json(nested_json(flow))
    if output is None:
        print_bytes(text)
        return
    write_whole(Path(output), text + b"\n")
    if is_json:
        print_json({"root_id": flow.root.id, "file": output})


def write_whole(path: Path, content: bytes) -> None:
    """Write a file all or not at all: beside it first, then in its place."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise UnwritableFile(f"{path}: {error.strerror}") from error
