"""`weft library show`."""

import click

from weft.cli.options import TEXT, store_options
from weft.cli.saying import echo


@click.command()
@click.argument("name", metavar="NAME[@VERSION]", type=TEXT)
@store_options
def show(name: str, db: str | None, user: str | None, is_json: bool) -> None:
    """Show a template: its definition, its arguments, its versions.

    A version can be shown also when the template was removed. Without --user it is a template that has no
    owner.
    """
    # Imported here: `weft library show --help` must not pay for it.
    from weft.cli.library_rows import arguments_line, summary_json
    from weft.cli.output import print_bytes, print_json
    from weft.cli.running import with_app
    from weft.cli.text import printable, when
    from weft.library import show_template

    template, versions = with_app(db, user, lambda app: show_template(app, name))
    if is_json:
        print_json(
            {
                **summary_json(template),
                "text": template.text,
                "versions": [{"version": one.version, "created_at": one.created_at} for one in versions],
            }
        )
        return
    echo(f"{printable(template.name)}@{template.version}  {template.facts.type}")
    if template.facts.summary:
        echo(printable(template.facts.summary))
    echo(f"arguments  {printable(arguments_line(template)) or '-'}")
    for one in versions:
        removed = f", removed {when(one.removed_at)}" if one.removed_at else ""
        echo(f"version {one.version}  {when(one.created_at)}{removed}")
    echo()
    print_bytes(template.text.rstrip("\n").encode())
