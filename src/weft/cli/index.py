"""`weft index`: update, watch, show and drop the index of files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.display.index_progress import (
    chosen_roots,
    report_line,
    say_waiting,
    size_line,
    size_text,
    with_bar,
)
from weft.cli.display.output import escape_json, plural, print_json, print_table
from weft.cli.invoke import echo
from weft.cli.main import LazyGroup
from weft.cli.options import TEXT, json_option

if TYPE_CHECKING:
    from weft.memory.protocol import IndexReport


class PathsOrCommand(LazyGroup):
    """A group whose first argument may also be a path: `weft index src` is `weft index update src`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_help = any(argument in ("-h", "--help") for argument in args[:1])
        if not is_help and (not args or args[0] not in self.list_commands(ctx)):
            args = ["update", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=PathsOrCommand,
    commands_in={
        "update": ("weft.cli.index:update", "Take in what is new or changed (the default)."),
        "watch": ("weft.cli.index:watch", "Do so as files change, until stopped."),
        "status": ("weft.cli.index:status", "Show what is indexed."),
        "drop": ("weft.cli.index:drop", "Forget folders, or everything."),
    },
    subcommand_metavar="[PATH...] | COMMAND [ARGS]...",
)
def index(**_: Any) -> None:
    """Index files, so that the ones that matter for a task are found.

    `weft index PATH...` takes in what is new, changed or gone below folders; without a path, below the roots
    of `[memory]` or `[tools]` in weft.toml. Tasks and `weft context` look below those roots only: name a
    folder there, or with `weft context --path`, for it to be looked in. What git ignores is left out, and
    what a .weftignore names. For a folder that is called like a command, write ./status.
    """


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@click.option("--db", metavar="FILE|URL", help="The store, whose file the index is kept in; also WEFT_DB.")
@json_option
def update(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Take in what is new, changed or gone below folders; Ctrl-C leaves the index usable.

    Without a path: below the roots of `[memory]` or `[tools]` in weft.toml.
    """
    # Imported here: --help must not pay for it.
    from weft.effects.memory import open_index

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


@click.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@click.option("--db", metavar="FILE|URL", help="The store, whose file the index is kept in; also WEFT_DB.")
@json_option
def drop(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Forget folders; without a path, everything. The files themselves stay."""
    # Imported here: --help must not pay for it.
    from weft.effects.memory import find_index

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


@click.command()
@click.option("--db", metavar="FILE|URL", help="The store, whose file the index is kept in; also WEFT_DB.")
@json_option
def status(db: str | None, is_json: bool) -> None:
    """Show which folders are indexed, how many files, and how large the index is."""
    # Imported here: --help must not pay for it.
    from weft.effects.memory import find_index

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

    from weft.effects.memory import open_index
    from weft.memory.index.watch import outputs_of, watch_roots

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
