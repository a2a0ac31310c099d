"""`weft index`: the files that tasks may be given."""

from typing import Any

import click

from weft.cli.lazy import LazyGroup


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
        "update": ("weft.cli.index_update:update", "Take in what is new or changed (the default)."),
        "watch": ("weft.cli.index_watch:watch", "Do so as files change, until stopped."),
        "status": ("weft.cli.index_status:status", "Show what is indexed."),
        "drop": ("weft.cli.index_drop:drop", "Forget folders, or everything."),
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
