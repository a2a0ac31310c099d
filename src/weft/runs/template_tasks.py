"""Tasks with a registered template as executor, named by `schemas.method` or `params.template`."""

from collections.abc import Iterable

import msgspec

from weft.executors.registry import BUILT_IN_IDS
from weft.runs.templates import UnknownTemplate, find_template, read_name
from weft.store.models import RegisteredTemplate
from weft.store.protocol import TaskStore
from weft.tasks.parsing.inputs import known_problems, mapped_names, problems_of, validator_for
from weft.tasks.parsing.problems import InvalidTasks, Problem, joined, shown
from weft.tasks.program_params import PROGRAM, TEMPLATE
from weft.tasks.record import JsonObject, Task, method_of
from weft.tasks.steps import is_step


def template_of(task: Task) -> str | None:
    """Return the template that a task names; None if it has a program, or another executor."""
    params = task.params or {}
    method = (task.schemas or {}).get("method")
    if PROGRAM in params or method is None:
        return None
    named = params.get(TEMPLATE) if method == TEMPLATE else method
    return str(named) if named is not None else None


async def is_run(store: TaskStore, task: Task) -> bool:
    """Return whether the task evaluates a program: it holds one, or a template is its executor."""
    method = method_of(task)
    if PROGRAM in (task.params or {}) or method == TEMPLATE:
        return True
    return method not in BUILT_IN_IDS and bool(await store.known_templates({read_name(method).name}))


def check_arguments(template: RegisteredTemplate, inputs: JsonObject, *, is_running: bool = False) -> None:
    """Raise InvalidTasks if the inputs do not match the template; secrets are checked when it runs."""
    validator, schema = validator_for(_schema_text(template)), template.facts.input_schema
    if is_running:
        problems = list(problems_of(validator, inputs, "inputs"))
    else:
        problems = known_problems(validator, schema, inputs, "inputs")
    if problems:
        raise InvalidTasks(problems)


async def require_arguments(store: TaskStore, tasks: Iterable[Task]) -> None:
    """Raise InvalidTasks if a new task names a template and its inputs do not match it.

    Inputs mapped from results of other tasks, and secrets, are checked when the task starts. A method that
    no registered template has may name an executor, here or in another worker, and is not checked.
    """
    named = [(task, name) for task in tasks if (name := _possible_template(task)) is not None]
    if not named:
        return
    known = await store.known_templates({read_name(name).name for _, name in named})
    meant = {
        (name, task.user_id)
        for task, name in named
        if method_of(task) == TEMPLATE or read_name(name).name in known
    }
    found = {(name, user_id): await _find(store, name, user_id) for name, user_id in meant}
    problems = [
        problem
        for task, name in named
        if (name, task.user_id) in found
        for problem in _task_problems(task, found[name, task.user_id])
    ]
    if problems:
        raise InvalidTasks(problems)


async def _find(store: TaskStore, name: str, user_id: str | None) -> RegisteredTemplate | UnknownTemplate:
    try:
        return await find_template(store, name, user_id=user_id)
    except UnknownTemplate as error:
        return error


def _possible_template(task: Task) -> str | None:
    if is_step(task) or (method_of(task) in BUILT_IN_IDS and method_of(task) != TEMPLATE):
        return None
    return template_of(task)


def _task_problems(task: Task, template: RegisteredTemplate | UnknownTemplate) -> list[Problem]:
    if isinstance(template, UnknownTemplate):
        is_certain = method_of(task) == TEMPLATE  # otherwise another worker may have an executor of that name
        wanted, found = "a registered template", shown(template.name)
        return [Problem("params", template.message, wanted, found, task.name)] if is_certain else []
    path = joined(task.name, "inputs")
    validator = validator_for(_schema_text(template))
    return known_problems(validator, template.facts.input_schema, task.inputs, path, mapped_names(task))


def _schema_text(template: RegisteredTemplate) -> bytes:
    return msgspec.json.encode(template.facts.input_schema)
