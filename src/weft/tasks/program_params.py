"""The `params` entries that hold a task's program, its template and its folder."""

from collections.abc import Mapping
from typing import Any

from weft.tasks.parsing.problems import Problem, problem_at
from weft.tasks.record import JsonObject, Task, evolve

PROGRAM = "program"
"""The entry of `params` that holds the program; for a template, the first attempt stores it there."""

TEMPLATE = "template"
"""The executor of programs, and the entry of `params` with the name of a registered template."""

FOLDER = "folder"
"""The field of a program with its working folder. Only `App` writes it."""


def folder_of(params: Any) -> Any:
    """Return the working folder of the program in `params`; None if it is not set."""
    if not params:
        return None
    program = params.get(PROGRAM) if isinstance(params, Mapping) else None
    return program.get(FOLDER) if isinstance(program, Mapping) else None


def folder_problems(params: Any, *, path: str = "", stored: Any = None) -> list[Problem]:
    """Return a problem if `params` from a client set the folder of a program.

    The folder decides which `weft.toml` applies, so only the process that runs the task may set it. A
    client may repeat the `stored` folder, which changes nothing.
    """
    given = folder_of(params)
    if given is None or given == stored:
        return []
    reason = (
        "params.program.folder is not allowed: the process that runs a program chooses its folder, and so "
        "its weft.toml; leave it out"
    )
    return [problem_at(path, f"params.{PROGRAM}.{FOLDER}", reason, "no folder", given, field="params")]


def in_folder(task: Task, folder: str | None) -> Task:
    """Return the task with the folder of its program set, or removed if `folder` is None."""
    params: JsonObject = task.params or {}
    if PROGRAM not in params or folder_of(params) == folder:
        return task
    program = {name: value for name, value in params[PROGRAM].items() if name != FOLDER}
    if folder is not None:
        program[FOLDER] = folder
    return evolve(task, params={**params, PROGRAM: program})


def without_pinned_program(task: Task) -> Task:
    """Return the task without its pinned program, so that it uses the newest version of its template.

    A task without the name of a template keeps its program.
    """
    params = task.params or {}
    method = (task.schemas or {}).get("method")
    names_template = method is not None and (method != TEMPLATE or TEMPLATE in params)
    if not names_template or PROGRAM not in params:
        return task
    return evolve(task, params={name: value for name, value in params.items() if name != PROGRAM} or None)
