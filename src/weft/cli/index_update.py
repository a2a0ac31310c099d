"""`weft index PATH...`."""

import click

from weft.cli.index_saying import chosen_roots, report_line, say_waiting, size_line, with_bar
from weft.cli.options import TEXT, json_option
from weft.cli.output import print_json
from weft.cli.saying import echo


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@click.option("--db", metavar="FILE|URL", help="The store, whose file the index is kept in; also WEFT_DB.")
@json_option
def update(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Take in what is new, changed or gone below folders; Ctrl-C leaves the index usable.

    Without a path: below the roots of `[memory]` or `[tools]` in weft.toml.
    """
    # Imported here: --help must not pay for it.
    from weft.project_memory import open_index

    roots = chosen_roots(paths)
    index = open_index(db, on_wait=say_waiting)
    try:
        report = with_bar(lambda tell: index.update(roots, tell))
    finally:
        index.close()
    if is_json:
        print_json(report)
        return
    echo(report_line(report))
    echo(size_line(report.text_bytes, report.index_bytes))
