"""`weft library remove`."""

import click

from weft.cli.options import TEXT, store_options
from weft.cli.saying import echo


@click.command()
@click.argument("name", metavar="NAME", type=TEXT)
@click.option("--force", "is_forced", is_flag=True, help="Also when other registered templates use it.")
@store_options
def remove(name: str, is_forced: bool, db: str | None, user: str | None, is_json: bool) -> None:
    """Let a template be found by its name no more.

    Its versions are kept: runs under way go on, and `weft library show NAME@VERSION` and
    `weft run NAME@VERSION` find them. Registered again, it gets the next version. Refused when other
    registered templates use it.
    """
    # Imported here: `weft library remove --help` must not pay for it.
    from weft.cli.library_rows import summary_json
    from weft.cli.output import print_json
    from weft.cli.running import with_app
    from weft.cli.text import printable
    from weft.library import remove_template

    removed = with_app(db, user, lambda app: remove_template(app, name, is_forced=is_forced))
    if is_json:
        print_json(summary_json(removed))
        return
    echo(f"removed {printable(removed.name)}; its versions up to {removed.version} can still be shown")
