"""The `weft` command. Subcommands are imported when they are used, so that `weft --help` is quick."""

import os
import signal
import sys
from importlib import import_module
from typing import Any

import click

from weft.cli.invoke import clean_logs, guarded, open_closed_streams
from weft.version import __version__


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


@click.group(
    cls=LazyGroup,
    commands_in={
        "check": ("weft.cli.check:check", "Say what is wrong with programs."),
        "run": ("weft.cli.run.command:run", "Run a program, every step of which is stored."),
        "eval": ("weft.cli.eval:eval_command", "Evaluate an expression or a program."),
        "print": ("weft.cli.print:print_command", "Print a program as S-expressions."),
        "repl": ("weft.cli.repl.command:repl", "Evaluate expressions one after the other."),
        "flow": ("weft.cli.flow.group:flow", "Create and run flows of tasks."),
        "tasks": (
            "weft.cli.tasks.group:tasks",
            "Look at stored tasks, steer, copy, link, archive them.",
        ),
        "library": ("weft.cli.library:library", "Register templates in the store, look at them."),
        "schedule": ("weft.cli.schedule:schedule", "Look at schedules and switch them on and off."),
        "serve": ("weft.cli.serve:serve", "Run flows and schedules until stopped."),
        "context": ("weft.cli.context:context", "Find the files that matter for a question."),
        "index": ("weft.cli.index:index", "Index the files that tasks may be given."),
        "models": ("weft.cli.models.commands:models", "Look at the models that can be used."),
        "tools": ("weft.cli.tools:tools", "List what programs and models can call."),
        "executors": ("weft.cli.executors:executors", "List what can perform tasks."),
        "schema": ("weft.cli.schema:schema", "Print the JSON Schema of what weft reads and writes."),
        "doctor": ("weft.cli.doctor:doctor", "Check this installation and its store."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
The store is .weft/weft.db in the project folder, unless --db or WEFT_DB says otherwise
(postgresql://user@host/name for PostgreSQL). Every command but repl takes --json for machines.
\b
Exit codes: 0 success, 1 failed, 2 wrong input, 3 not found, 4 waits for a person,
5 could not be tried (no model, store or network), 130 interrupted.
\b
Start here:
  weft eval '(+ 1 2)'
  weft run examples/until_tests_pass.sexp
  weft flow run examples/release.json
  weft tasks list
  weft tasks tree ID""",
)
@click.version_option(__version__, prog_name="weft")
def weft() -> None:
    """weft runs the work language models do, as durable tasks."""


def main() -> None:
    """Run the command line and exit with its code."""
    open_closed_streams()
    clean_logs()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = guarded(weft, sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))  # all is done; no traceback while Python ends
    sys.exit(code)
