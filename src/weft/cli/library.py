"""`weft library`: register, list, show and remove templates of the store."""

import click

from weft.app.templates import RegisteredTemplate, read_templates
from weft.cli.display.output import (
    plural,
    print_bytes,
    print_json,
    print_result,
    print_table,
    printable,
    when,
)
from weft.cli.invoke import echo
from weft.cli.main import LazyGroup
from weft.cli.options import TEMPLATE_NAME
from weft.cli.store_access import StoreOptions, store_options
from weft.tasks.record import JsonObject


@click.group(
    cls=LazyGroup,
)
def library() -> None:
    """Register templates in the store, list and remove them.

    A registered template can be run with `weft run NAME`, called or referenced by programs, and named as the
    executor of a task (`schemas.method`). Each change makes a new version; a run keeps the versions that it
    started with.
    """


@library.command(short_help="Register the templates of files.")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER...")
@store_options
def add(paths: tuple[str, ...], store: StoreOptions) -> None:
    """Register the templates of files and folders: all of them, or none.

    The templates are checked first, together with registered templates that use them. A changed template
    gets the next version, an unchanged one keeps its version. JSON Schema files that a template names are
    stored with it. Only templates are registered; functions and calls in the files are ignored.

    \b
    Examples:
      weft library add review.xml
      weft library add templates/
    """
    read = read_templates(paths)
    added = store.run(lambda app: app.library.add(read.templates), must_exist=False)
    if store.is_json:
        rows = [{**summary_json(one.template), "is_new": one.is_new} for one in added]
        print_json({"templates": rows, "left_out": read.left_out})
        return
    for one in added:
        verb = "registered" if one.is_new else "unchanged"
        echo(f"{verb} {printable(one.template.name)}@{one.template.version}")
    if read.left_out:
        echo(f"ignored {plural(read.left_out, 'form')}: only templates are registered", err=True)
    if not added:
        echo("no templates found in these files", err=True)


@library.command("list", short_help="List the registered templates.")
@store_options
def list_templates(store: StoreOptions) -> None:
    """List the newest version of each registered template; without --user, of all owners."""
    templates = store.run(lambda app: app.library.list())
    if store.is_json:
        print_json({"templates": [summary_json(one) for one in templates]})
        return
    if not templates:
        echo("no registered templates")
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


@library.command(short_help="Show a template, or a version of it.")
@click.argument("name", metavar="NAME[@VERSION]", type=TEMPLATE_NAME)
@store_options
def show(name: str, store: StoreOptions) -> None:
    """Show the definition, arguments and versions of a template.

    NAME@VERSION shows one version, also of a removed template. Without --user, only templates without an
    owner are found.
    """
    template, versions = store.run(lambda app: app.library.show(name))
    if store.is_json:
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


@library.command(short_help="Remove a template; its versions are kept.")
@click.argument("name", metavar="NAME", type=TEMPLATE_NAME)
@click.option("--force", "is_forced", is_flag=True, help="Remove it even if other templates use it.")
@store_options
def remove(name: str, is_forced: bool, store: StoreOptions) -> None:
    """Remove a template, so that its name is no longer found; its versions are kept.

    Existing runs continue, and NAME@VERSION still works with `weft library show` and `weft run`. If the
    template is registered again, it gets the next version. A template that other templates use is not removed
    without --force.
    """
    removed = store.run(lambda app: app.library.remove(name, is_forced=is_forced))
    text = f"removed {printable(removed.name)}; its versions up to {removed.version} can still be used"
    print_result(summary_json(removed), text, is_json=store.is_json)


def summary_json(template: RegisteredTemplate) -> JsonObject:
    """Return the JSON form of a template, without its source text."""
    return {
        "name": template.name,
        "version": template.version,
        "user_id": template.user_id,
        "type": template.facts.type,
        "summary": template.facts.summary,
        "input_schema": template.facts.input_schema,
        "created_at": template.created_at,
        "removed_at": template.removed_at,
    }


def arguments_line(template: RegisteredTemplate) -> str:
    """Format the arguments of a template, optional ones in brackets: `code [style]`."""
    schema = template.facts.input_schema
    required = schema.get("required", ())
    return " ".join(name if name in required else f"[{name}]" for name in schema.get("properties", ()))
