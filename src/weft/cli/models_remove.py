"""`weft models remove`."""

import sys

import click

from weft.cli.options import TEXT, json_option
from weft.cli.output import print_json
from weft.cli.saying import echo


@click.command()
@click.argument("name", type=TEXT)
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def remove(name: str, yes: bool, is_json: bool) -> None:
    """Delete an embedded model, and what is left of pulls of it."""
    # Imported here: `weft models remove --help` must not pay for it.
    from weft.llm.local import store
    from weft.llm.local.catalogue import find_entry, megabytes
    from weft.llm.local.pull import remove as remove_model

    entry = find_entry(name)
    if not yes and store.is_present(entry):
        _confirm(f"Delete {store.file_of(entry)} ({megabytes(entry.size)})?")
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
