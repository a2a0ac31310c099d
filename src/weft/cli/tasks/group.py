"""`weft tasks`: stored task records."""

import click

from weft.cli.main import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_in={
        "list": ("weft.cli.tasks.list:list_tasks", "List tasks, newest first."),
        "show": ("weft.cli.tasks.show:show", "Show everything about one task."),
        "tree": ("weft.cli.tasks.tree:tree", "Show the flow a task is in as a tree."),
        "watch": ("weft.cli.tasks.watch:watch", "Watch a flow while another process runs it."),
        "cancel": ("weft.cli.tasks.lifecycle:cancel", "Cancel a task and all below it that has not ended."),
        "answer": ("weft.cli.tasks.answer:answer", "Answer a question that a run asks a person."),
        "retry": ("weft.cli.tasks.lifecycle:retry", "Make failed tasks pending again."),
        "copy": ("weft.cli.tasks.copy:copy", "Copy a task and all below it as a new pending flow."),
        "link": (
            "weft.cli.tasks.lifecycle:link",
            "Make a new flow that carries the results of completed tasks.",
        ),
        "archive": ("weft.cli.tasks.lifecycle:archive", "Make a frozen deep copy of completed tasks."),
        "update": ("weft.cli.tasks.update:update", "Set fields of a task."),
        "delete": ("weft.cli.tasks.lifecycle:delete", "Delete pending tasks that nothing needs."),
        "export": ("weft.cli.tasks.export:export", "Write a flow as JSON that `weft flow submit` reads."),
        "events": ("weft.cli.tasks.events:events", "Show what happened, oldest first."),
    },
)
def tasks() -> None:
    """Look at stored tasks, answer their questions, steer, copy, link, archive, update, delete them."""
