"""`weft index`: update, watch, show and drop the index of files."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from weft.app.memory import (
    IndexReport,
    chosen_roots,
    drop_from_index,
    index_status,
    update_index,
    watch_index,
)
from weft.cli.display.index_progress import (
    echo_waiting,
    report_line,
    size_line,
    size_text,
    with_bar,
)
from weft.cli.display.output import escape_json, plural, print_json, print_result, print_table
from weft.cli.invoke import echo
from weft.cli.main import LazyGroup
from weft.cli.options import TEXT, index_db_option, json_option


class PathsOrCommand(LazyGroup):
    """A group that also accepts paths: `weft index src` is `weft index update src`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_help = any(argument in ("-h", "--help") for argument in args[:1])
        if not is_help and (not args or args[0] not in self.list_commands(ctx)):
            args = ["update", *args]
        return super().parse_args(ctx, args)


@click.group(
    cls=PathsOrCommand,
    subcommand_metavar="[PATH...] | COMMAND [ARGS]...",
)
def index(**_: Any) -> None:
    """Index files, so that tasks and `weft context` can find the relevant ones.

    `weft index PATH...` updates the index with the files below these folders; without a PATH, below the
    roots of `[memory]` or `[tools]` in weft.toml. Tasks search those roots only; `weft context --path`
    searches other folders. Files ignored by git or by a .weftignore are skipped. Write ./status
    for a folder that has the name of a command.

    \b
    Examples:
      weft index
      weft index src docs
      weft index status
    """


@index.command(short_help="Index new and changed files (the default).")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@index_db_option
@json_option
def update(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Index new and changed files; safe to interrupt.

    Without a PATH, updates the roots of `[memory]` or `[tools]` in weft.toml. Deleted files are removed from
    the index.
    """
    roots = chosen_roots(paths)
    report = with_bar(lambda on_progress: update_index(db, roots, echo_waiting, on_progress))
    if is_json:
        print_json(report)
        return
    echo(report_line(report))
    echo(size_line(report.text_bytes, report.index_bytes))


@index.command(short_help="Update the index as files change, until stopped.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@index_db_option
@click.option("--json", "is_json", is_flag=True, help="Print one line of JSON per update.")
def watch(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Update the index as files change, until Ctrl-C."""
    is_first = True

    def print_update(report: IndexReport) -> None:
        nonlocal is_first
        if not is_first and not (report.added or report.changed or report.removed):
            return
        is_first = False
        echo(escape_json(msgspec.json.encode(report)).decode() if is_json else report_line(report))

    watch_index(db, chosen_roots(paths), echo_waiting, print_update)


@index.command(short_help="Show the indexed folders and the size of the index.")
@index_db_option
@json_option
def status(db: str | None, is_json: bool) -> None:
    """Show the indexed folders, the number of files and the size of the index."""
    found = index_status(db)
    if is_json:
        print_json(found)
        return
    if not found["roots"]:
        echo("no files are indexed; run: weft index")
        return
    rows = [
        [root["root"], f"{root['files']:,}", size_text(root["text_bytes"]), _when(root["updated_at"])]
        for root in found["roots"]
    ]
    print_table(("ROOT", "FILES", "TEXT", "UPDATED"), rows)
    echo(size_line(found["text_bytes"], found["index_bytes"]))


def _when(seconds: float | None) -> str:
    if seconds is None:
        return "not finished yet"
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


@index.command(short_help="Remove folders, or everything, from the index.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=TEXT)
@index_db_option
@json_option
def drop(paths: tuple[str, ...], db: str | None, is_json: bool) -> None:
    """Remove folders from the index; without a PATH, everything. The files themselves are kept."""
    dropped = drop_from_index(db, [Path(path) for path in paths], echo_waiting)
    text = f"{plural(dropped, 'folder')} dropped from the index"
    print_result({"dropped": dropped}, text, is_json=is_json)
