"""The `weft` command. Subcommands are imported on first use, so that `weft --help` is fast."""

import os
import signal
import sys
from importlib import import_module
from typing import Any

import click

from weft.cli.invoke import clean_logs, open_closed_streams, run_command
from weft.version import __version__


class LazyGroup(click.Group):
    """A command group that imports a command of another module when it is invoked.

    `commands_in` maps each name to an import path (`module:function`) and one line of help. Commands of the
    group's own module are added with `command`, and listed in the order of their definition.
    """

    def __init__(
        self, *args: Any, commands_in: dict[str, tuple[str, str]] | None = None, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self._commands_in = commands_in or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._commands_in, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._commands_in:
            return super().get_command(ctx, cmd_name)
        module, _, name = self._commands_in[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # Imported here: slow to import, and needed only after a mistyped command.
            from difflib import get_close_matches

            close = get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"No such command '{args[0]}'.{hint}", ctx=ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, about) for name, (_, about) in self._commands_in.items()]
                + [(name, command.short_help or "") for name, command in self.commands.items()]
            )


@click.group(
    cls=LazyGroup,
    commands_in={
        "check": ("weft.cli.check:check", "Check programs for problems without running them."),
        "run": ("weft.cli.run:run", "Run a program durably: every step is stored."),
        "eval": ("weft.cli.eval:eval_command", "Evaluate an expression or a program; store nothing."),
        "print": ("weft.cli.print:print_command", "Print a program as S-expressions."),
        "repl": ("weft.cli.repl.command:repl", "Evaluate expressions interactively."),
        "flow": ("weft.cli.flow:flow", "Submit and run flows of tasks."),
        "tasks": ("weft.cli.tasks.group:tasks", "Inspect and manage stored tasks."),
        "library": ("weft.cli.library:library", "Register templates in the store, list and remove them."),
        "schedule": ("weft.cli.schedule:schedule", "List schedules, enable and disable them."),
        "serve": ("weft.cli.serve:serve", "Run a worker: run started flows, and fire schedules."),
        "context": ("weft.cli.context:context", "Find the files that are relevant to a query."),
        "index": ("weft.cli.index:index", "Index the files that tasks can use as context."),
        "models": ("weft.cli.models:models", "List models, download and delete embedded ones."),
        "tools": ("weft.cli.tools:tools", "List the tools that programs and models can call."),
        "executors": ("weft.cli.executors:executors", "List the executors that can perform tasks."),
        "schema": ("weft.cli.schema:schema", "Print the JSON Schema of tasks and flows."),
        "completion": ("weft.cli.completion:completion", "Complete commands, ids and names in a shell."),
        "doctor": ("weft.cli.doctor:doctor", "Check the installation, the store, models and tools."),
    },
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
The store is .weft/weft.db in the project folder, unless --db or WEFT_DB names another
(postgresql://user@host/name for PostgreSQL). Every command except repl accepts --json.

\b
Exit codes: 0 success, 1 failed, 2 invalid input, 3 not found, 4 waiting for a person,
5 unavailable (no model, store or network: try again later), 130 interrupted.

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
    """Run language-model work as durable tasks.

    weft stores every step, so an interrupted run can be resumed where it stopped.
    """


def main() -> None:
    """Run the command line and exit with its code."""
    open_closed_streams()
    clean_logs()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    code = run_command(weft, sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, lambda *_: os._exit(code)
        )  # the work is done: no traceback while Python exits
    sys.exit(code)
