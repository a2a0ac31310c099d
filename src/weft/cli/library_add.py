"""`weft library add`."""

import click

from weft.cli.options import store_options
from weft.cli.saying import echo


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER...")
@store_options
def add(paths: tuple[str, ...], db: str | None, user: str | None, is_json: bool) -> None:
    """Register the templates of files, and of all program files of folders: all of them, or none.

    They are checked first, beside all that is registered; registered templates that use them are checked
    again, too. A template whose definition has changed gets the next version; one that has not stays as it
    is. JSON Schema files that a template names are taken in with it. Only templates are registered: what else
    a file has (functions, calls) is left out.
    """
    # Imported here: `weft library add --help` must not pay for it.
    from weft.cli.library_rows import summary_json
    from weft.cli.output import print_json
    from weft.cli.running import with_app
    from weft.cli.text import plural, printable
    from weft.library import add_templates, read_templates

    read = read_templates(paths)
    added = with_app(db, user, lambda app: add_templates(app, read.templates), must_exist=False)
    if is_json:
        rows = [{**summary_json(one.template), "is_new": one.is_new} for one in added]
        print_json({"templates": rows, "left_out": read.left_out})
        return
    for one in added:
        said = "registered" if one.is_new else "unchanged"
        echo(f"{said} {printable(one.template.name)}@{one.template.version}")
    if read.left_out:
        echo(f"left out {plural(read.left_out, 'form')} that define no template", err=True)
    if not added:
        echo("no templates", err=True)
