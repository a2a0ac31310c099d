"""`weft models`: which models can be used."""

import click

from weft.cli.lazy import LazyGroup
from weft.cli.options import json_option


@click.group(
    cls=LazyGroup,
    commands_in={
        "list": ("weft.cli.models_list:list_models", "List what can be used now, and why the rest cannot."),
        "pull": ("weft.cli.models_pull:pull", "Fetch an embedded model."),
        "remove": ("weft.cli.models_remove:remove", "Delete an embedded model."),
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
        # Imported here: the other commands must not pay for it.
        from weft.cli.models_list import list_models

        context.invoke(list_models, is_json=is_json)
