"""Submitting flows: find the templates that tasks name, and check the arguments of these tasks."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from weft.clock import SystemClock
from weft.ids import new_task_id
from weft.store.models import RegisteredTemplate
from weft.store.protocol import Owner, TaskStore
from weft.tasks.flow import Flow
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.record import method_of


def read_document(document: Any, *, user_id: str | None = None) -> Flow:
    """Return the checked flow of a JSON document, without storing it."""
    return read_flow(document, new_id=new_task_id, now=SystemClock().now(), user_id=user_id)


async def require_arguments(store: TaskStore, flow: Flow) -> None:
    """Raise InvalidTasks if inputs of tasks do not match the registered templates that the tasks name."""
    # Imported here: not needed to read tasks, or to submit tasks of built-in executors.
    from weft.executors.builtin import BUILT_IN_IDS

    if not {method_of(task) for task in flow} <= BUILT_IN_IDS - {"template"} | {""}:
        from weft.runs.template_tasks import require_arguments

        await require_arguments(store, flow)


async def task_templates(
    store: TaskStore, owner: Owner, names: Collection[str] | None = None
) -> Sequence[RegisteredTemplate]:
    """Return the templates that tasks of the owner can name: all, or only those with the given names."""
    return await store.templates(owner=Owner(owner.user_id), names=names)


async def named_templates(
    store: TaskStore, owner: Owner, names: Collection[str]
) -> dict[str, RegisteredTemplate]:
    """Return the templates of the given names or versions (`review@2`) that exist for the owner, by name."""
    # Imported here: see require_arguments.
    from weft.runs.templates import UnknownTemplate, find_template

    found = {}
    for name in dict.fromkeys(names):
        with suppress(UnknownTemplate):
            found[name] = await find_template(store, name, user_id=owner.user_id)
    return found
