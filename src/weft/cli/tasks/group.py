"""`weft tasks`: stored task records."""

import click

from weft.cli.main import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_in={
        "list": ("weft.cli.tasks.inspect:list_tasks", "List tasks, newest first."),
        "show": ("weft.cli.tasks.inspect:show", "Show all fields of a task."),
        "tree": ("weft.cli.tasks.inspect:tree", "Show the flow of a task as a tree."),
        "watch": ("weft.cli.tasks.inspect:watch", "Watch a flow that another process runs."),
        "cancel": ("weft.cli.tasks.change:cancel", "Cancel a task and its unfinished subtree."),
        "answer": ("weft.cli.tasks.change:answer", "Answer a question that a run asks a person."),
        "retry": ("weft.cli.tasks.change:retry", "Reset failed tasks to pending, to run them again."),
        "copy": ("weft.cli.tasks.change:copy", "Copy a task and its subtree as a new flow, or fork a run."),
        "link": ("weft.cli.tasks.change:link", "Create a new flow with the results of completed tasks."),
        "archive": ("weft.cli.tasks.change:archive", "Create a frozen deep copy of completed tasks."),
        "update": ("weft.cli.tasks.change:update", "Set fields of a task."),
        "delete": ("weft.cli.tasks.change:delete", "Delete pending tasks."),
        "export": ("weft.cli.tasks.change:export", "Export a flow as JSON for `weft flow submit`."),
        "events": ("weft.cli.tasks.inspect:events", "Show the events of a task or flow."),
    },
)
def tasks() -> None:
    """Inspect and manage stored tasks: answer questions, cancel, retry, copy, update, delete and more."""
