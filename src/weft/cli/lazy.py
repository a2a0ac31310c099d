"""A click group whose commands are imported only when they are used."""

from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that knows its commands by name, place and one line of help."""

    def __init__(self, *args: Any, commands_in: dict[str, tuple[str, str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._places = commands_in

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._places:
            return None
        module, _, name = self._places[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # Imported here: only a mistake needs it, and it is slow to import.
            from difflib import get_close_matches

            close = get_close_matches(args[0], self._places, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in self._places.items()])
