"""`weft models list`."""

from typing import TYPE_CHECKING

import click

from weft.cli.options import json_option
from weft.cli.output import print_json, print_table
from weft.cli.saying import echo
from weft.cli.text import printable

if TYPE_CHECKING:
    from weft.llm.verdicts import Verdict
    from weft.model_settings import ModelsSettings


@click.command("list")
@json_option
def list_models(is_json: bool) -> None:
    """List what can be used now, and why the rest cannot.

    Nobody is asked over the network: a provider can be used when its extra is installed and its key is set.
    """
    # Imported here: `weft models list --help` must not pay for it.
    import os

    from weft.cli.models_embedded import embedded_verdicts
    from weft.llm.verdicts import verdicts
    from weft.settings import load_settings

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
    from weft.llm.model_names import resolved

    try:
        return str(resolved(None, settings)), None if settings.default else "no other is chosen"
    except ModelError as error:
        return settings.default, error.message


def _row(verdict: "Verdict") -> tuple[str, str, str, str]:
    usable = "yes" if verdict.is_usable else "no"
    return printable(verdict.name), verdict.kind, usable, printable(verdict.why)
