"""The program that the first attempt at a task has pinned: of tasks that name a registered template."""

from collections.abc import Mapping
from typing import Any

from weft.tasks.parsing.problems import Problem, joined, shown
from weft.tasks.record import JsonObject, Task, evolve

PROGRAM = "program"
"""The entry of `params` that holds it."""

TEMPLATE = "template"
"""The executor of programs, and of templates that the entry of `params` with this name names."""

FOLDER = "folder"
"""The field of a program that says where it works. Only `App` writes it."""


def folder_of(params: Any) -> Any:
    """Return where the program in `params` says it works; None when it says nothing."""
    if not params:
        return None
    program = params.get(PROGRAM) if isinstance(params, Mapping) else None
    return program.get(FOLDER) if isinstance(program, Mapping) else None


def folder_problems(params: Any, *, path: str = "", stored: Any = None) -> list[Problem]:
    """Return what is wrong with `params` from a client that name the folder of a program.

    The folder decides whose `weft.toml` applies, which is for the process that runs the task to say. A client
    may repeat the `stored` one: then it changes nothing.
    """
    given = folder_of(params)
    if given is None or given == stored:
        return []
    reason = (
        "params.program.folder is refused: the process that runs a program decides where it works and whose "
        "weft.toml applies; leave it out"
    )
    return [Problem("params", reason, "no folder", shown(given), joined(path, f"params.{PROGRAM}.{FOLDER}"))]


def in_folder(task: Task, folder: str | None) -> Task:
    """Return the task with the folder of its program set, or left out when it is None."""
    params: JsonObject = task.params or {}
    if PROGRAM not in params or folder_of(params) == folder:
        return task
    program = {name: value for name, value in params[PROGRAM].items() if name != FOLDER}
    if folder is not None:
        program[FOLDER] = folder
    return evolve(task, params={**params, PROGRAM: program})


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
