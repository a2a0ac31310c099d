"""The program that the first attempt at a task has pinned: of tasks that name a registered template."""

from weft.tasks.record import Task, evolve

PROGRAM = "program"
"""The entry of `params` that holds it."""

TEMPLATE = "template"
"""The executor of programs, and of templates that the entry of `params` with this name names."""


def unpinned(task: Task) -> Task:
    """The task without a pinned program, so that it takes the newest version of the template it names.

    A task that names none is its program.
    """
    params = task.params or {}
    method = (task.schemas or {}).get("method")
    names_template = method is not None and (method != TEMPLATE or TEMPLATE in params)
    if not names_template or PROGRAM not in params:
        return task
    return evolve(task, params={name: value for name, value in params.items() if name != PROGRAM} or None)
