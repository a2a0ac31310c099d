"""`weft library`: the templates that are registered in the store."""

import click

from weft.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_in={
        "add": ("weft.cli.library_add:add", "Register the templates of files."),
        "list": ("weft.cli.library_list:list_templates", "List the registered templates."),
        "show": ("weft.cli.library_show:show", "Show a template, or a version of it."),
        "remove": ("weft.cli.library_remove:remove", "Let a template be found no more."),
    },
)
def library() -> None:
    """Register templates in the store, so that programs, flows and other processes find them by name.

    `weft run NAME` runs one; `ref` and calls in programs find them; a task of a flow may have one as its
    executor (`schemas.method`). Each change makes a new version, and a run keeps the versions it began with.
    """
