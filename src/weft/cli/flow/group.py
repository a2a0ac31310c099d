"""`weft flow`: create and run flows."""

import click

from weft.cli.main import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_in={
        "run": ("weft.cli.flow.run:run", "Store a flow and run it, or resume a stored flow."),
        "submit": ("weft.cli.flow.submit:submit", "Check a flow and store it without running it."),
    },
)
def flow() -> None:
    """Submit and run flows of tasks.

    A flow is a JSON file: a list of tasks, or a tree of {"task": {...}, "children": [...]}. Only `name` is
    required; dependencies may be names instead of ids:

    \b
      [{"name": "fetch", "schemas": {"method": "http"}, "inputs": {"url": "https://example.com"}},
       {"name": "count", "schemas": {"method": "command"}, "inputs": {"argv": ["wc", "-c"]},
        "params": {"input_mappings": {"stdin": "fetch.text"}}, "dependencies": ["fetch"]}]

    `weft schema task` prints every field.
    """
