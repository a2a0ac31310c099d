"""`weft schedule`: tasks with a schedule."""

import click

from weft.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    commands_in={
        "list": ("weft.cli.schedule_list:list_schedules", "List tasks whose schedule is on."),
        "next": ("weft.cli.schedule_next:next_times", "Show when a task is due next."),
        "enable": ("weft.cli.schedule_switch:enable", "Switch a task's schedule on."),
        "disable": ("weft.cli.schedule_switch:disable", "Switch a task's schedule off."),
    },
)
def schedule() -> None:
    """Look at schedules and switch them; `weft serve --no-http` fires them.

    A task with a schedule is a definition and stays pending. Each time it is due, a copy of it is run: of the
    whole tree when it is a root, else of the task and all it depends on.
    """
