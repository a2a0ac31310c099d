"""`weft index watch`."""

from typing import TYPE_CHECKING

import click

from weft.cli.index_saying import chosen_roots, report_line, say_waiting
from weft.cli.options import TEXT, json_option
from weft.cli.output import escape_json
from weft.cli.saying import echo

if TYPE_CHECKING:
    from weft.memory.protocol import IndexReport


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@click.option("--db", metavar="FILE|URL", help="The store, whose file the index is kept in; also WEFT_DB.")
@json_option
def watch(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Keep the index up to date as files change, until Ctrl-C.

    With --json a line of JSON is printed for every update instead of one document.
    """
    # Imported here: --help must not pay for it.
    import msgspec

    from weft.memory.watching import outputs_of, watch_roots
    from weft.project_memory import open_index

    roots = chosen_roots(paths)
    index = open_index(db, on_wait=say_waiting)
    is_first = True

    def tell(report: "IndexReport") -> None:
        nonlocal is_first
        if not is_first and not (report.added or report.changed or report.removed):
            return
        is_first = False
        echo(escape_json(msgspec.json.encode(report)).decode() if is_json else report_line(report))

    try:
        watch_roots(index, roots, tell, outputs=outputs_of((1, 2)))
    finally:
        index.close()
