"""`weft schema`."""

import click

from weft.cli.display.output import print_json
from weft.cli.invoke import echo
from weft.cli.options import json_option
from weft.evaluator.errors import error_schema
from weft.tasks.json_schema import flow_schema, task_schema


@click.command()
@click.argument("what", type=click.Choice(["task", "flow", "task-error"]), default="task")
@json_option
def schema(what: str, is_json: bool) -> None:
    """Print the JSON Schema (draft-07) of a task record or of a flow.

    `task` is a whole record, as `weft tasks show --json` prints it. `flow` is the document that
    `weft flow submit` reads: only names are required, and dependencies may be names. `task-error` is the XML
    Schema of a TaskError, as `TaskFailed.as_xml()` writes it.
    """
    if what == "task-error":
        echo(error_schema(), nl=False)
        return
    print_json(task_schema() if what == "task" else flow_schema())
