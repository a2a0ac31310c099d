"""`weft library list`."""

import click

from weft.cli.options import store_options
from weft.cli.saying import echo


@click.command("list")
@store_options
def list_templates(db: str | None, user: str | None, is_json: bool) -> None:
    """List the registered templates, the newest version of each; without --user those of all owners."""
    # Imported here: `weft library list --help` must not pay for it.
    from weft import library
    from weft.cli.library_rows import arguments_line, summary_json
    from weft.cli.output import print_json, print_table
    from weft.cli.running import with_app
    from weft.cli.text import printable, when

    templates = with_app(db, user, library.list_templates)
    if is_json:
        print_json({"templates": [summary_json(one) for one in templates]})
        return
    if not templates:
        echo("no templates")
        return
    rows = [
        (
            printable(one.name, width=40),
            str(one.version),
            printable(one.user_id or "-", width=20),
            one.facts.type,
            printable(arguments_line(one), width=40) or "-",
            when(one.created_at),
        )
        for one in templates
    ]
    print_table(("NAME", "VERSION", "OWNER", "TYPE", "ARGUMENTS", "SINCE"), rows)
