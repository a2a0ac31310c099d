"""`weft index drop`."""

from pathlib import Path

import click

from weft.cli.index_saying import say_waiting
from weft.cli.options import TEXT, json_option
from weft.cli.output import print_json
from weft.cli.saying import echo
from weft.cli.text import plural


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@click.option("--db", metavar="FILE|URL", help="The store, whose file the index is kept in; also WEFT_DB.")
@json_option
def drop(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Forget folders; without a path, everything. The files themselves stay."""
    # Imported here: --help must not pay for it.
    from weft.project_memory import find_index

    index = find_index(db, of_any_shape=not paths, on_wait=say_waiting)
    dropped = 0
    if index is not None:
        try:
            before = len(index.status()["roots"])
            index.drop([Path(path) for path in paths] or None)
            dropped = before - len(index.status()["roots"])
        finally:
            index.close()
    if is_json:
        print_json({"dropped": dropped})
    else:
        echo(f"{plural(dropped, 'folder')} dropped from the index")
