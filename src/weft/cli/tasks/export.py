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
    """Export the flow of a task as JSON, which `weft flow submit` reads.

    The JSON is a tree: {"task": ..., "children": [...]}. A tree deeper than 200 levels is written as an
    equivalent flat list of tasks.

    \b
    Example:
      weft tasks export 3f0e0c1e-5f8b-4a55-9f5c-0f6f5a1c2b7d -o flow.json
    """
    # Imported here: keeps --help fast.
    from weft.app.export import export_flow
    from weft.tasks.flow import nested_json

    flow = with_app(db, user, lambda app: export_flow(app, task_id))
    text = escape_json(nested_json(flow))
    if output is None:
        print_bytes(text)
        return
    write_whole(Path(output), text + b"\n")
    if is_json:
        print_json({"root_id": flow.root.id, "file": output})


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: write a temporary file beside it, then rename that."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UnwritableFile(f"{path}: {error.strerror}") from error
