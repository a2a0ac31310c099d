"""`weft index status`."""

from datetime import UTC, datetime

import click

from weft.cli.index_saying import size_line, size_text
from weft.cli.options import json_option
from weft.cli.output import print_json, print_table
from weft.cli.saying import echo


@click.command()
@click.option("--db", metavar="FILE|URL", help="The store, whose file the index is kept in; also WEFT_DB.")
@json_option
def status(db: str | None, is_json: bool) -> None:
    """Show which folders are indexed, how many files, and how large the index is."""
    # Imported here: --help must not pay for it.
    from weft.project_memory import find_index

    index = find_index(db)
    if index is None:
        if is_json:
            print_json(
                {"file": None, "roots": [], "files": 0, "chunks": 0, "text_bytes": 0, "index_bytes": 0}
            )
        else:
            echo("nothing is indexed")
        return
    try:
        found = index.status()
    finally:
        index.close()
    if is_json:
        print_json(found)
        return
    if not found["roots"]:
        echo("nothing is indexed")
        return
    rows = [
        [root["root"], f"{root['files']:,}", size_text(root["text_bytes"]), _when(root["updated_at"])]
        for root in found["roots"]
    ]
    print_table(("ROOT", "FILES", "TEXT", "UPDATED"), rows)
    echo(size_line(found["text_bytes"], found["index_bytes"]))


def _when(seconds: float | None) -> str:
    if seconds is None:
        return "not to the end yet"
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")
