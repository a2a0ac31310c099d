"""`weft flow`: create flows."""

import click

from weft.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup, commands_in={"submit": ("weft.cli.flow_submit:submit", "Check a flow and store it.")}
)
def flow() -> None:
    """Create flows of tasks.

    A flow is a JSON file: a list of tasks, or a tree of {"task": {...}, "children": [...]}. Only `name` must
    be given; ids may be left out, and dependencies given by name:

    \b
      [{"name": "fetch", "schemas": {"method": "http"}, "inputs": {"url": "https://example.com"}},
       {"name": "count", "schemas": {"method": "command"}, "dependencies": ["fetch"]}]

    `weft schema task` prints every field.
    """
