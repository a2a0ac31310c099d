"""`weft completion`: complete commands, options, ids and template names in a shell."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from weft.app.app import App, TaskFilter
from weft.cli.display.output import SHORT_ID, print_json, printable, short_id
from weft.cli.invoke import echo
from weft.cli.options import json_option
from weft.errors import WeftError
from weft.ids import LAST
from weft.tasks.record import Task

MAX_ITEMS = 50
VARIABLE = "_WEFT_COMPLETE"
"""What the scripts set to ask weft for completions."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, is_json: bool) -> None:
    """Print a script that completes weft's commands in a shell: options, ids of tasks, names of templates.

    \b
    Install it once:
      bash: echo 'eval "$(weft completion bash)"' >> ~/.bashrc
      zsh:  echo 'eval "$(weft completion zsh)"' >> ~/.zshrc
      fish: weft completion fish > ~/.config/fish/completions/weft.fish
    """
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"there is no completion for {shell}")
    script = found(ctx.find_root().command, {}, "weft", VARIABLE).source()
    if is_json:
        print_json({"script": script})
    else:
        echo(script)


def complete_id(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the newest runs whose ids begin with a text; of a longer text, tasks of any kind."""

    async def find(app: App) -> list[Task]:
        if len(incomplete) > SHORT_ID:
            return list(await app.find_by_prefix(incomplete, limit=MAX_ITEMS))
        return list((await app.list(TaskFilter(only_roots=True, limit=MAX_ITEMS))).tasks)

    tasks = _ask(ctx, find, [])
    ids = [(short_id(task.id, is_full=len(incomplete) > SHORT_ID), task) for task in tasks]
    items = [
        CompletionItem(shown, help=f"{printable(task.name, width=40)} ({task.status})")
        for shown, task in ids
        if shown.startswith(incomplete.lower())
    ]
    return [*items, *([CompletionItem(LAST, help="the newest run")] if LAST.startswith(incomplete) else [])]


def complete_template(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the registered templates whose names begin with a text."""

    async def find(app: App) -> list[tuple[str, str]]:
        return [(one.name, one.facts.summary) for one in await app.library.find_all()]

    found = _ask(ctx, find, [])
    return [
        CompletionItem(name, help=printable(about, width=60))
        for name, about in found
        if name.startswith(incomplete)
    ]


def _ask(ctx: click.Context, act: Callable[[App], Awaitable[Any]], default: Any) -> Any:
    """Return what `act` finds in the store, or the default: a completion prints no errors."""

    async def run() -> Any:
        given = ctx.params
        async with await App.open(given.get("db"), user_id=given.get("user"), must_exist=True) as app:
            return await act(app)

    try:
        return asyncio.run(run())
    except (WeftError, OSError):
        return default
