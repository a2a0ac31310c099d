"""Templates as tasks: which of them an owner's tasks can name, and what is asked of tasks that do."""

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
    """Return the flow that a JSON document describes, checked but not stored: needs no store."""
    return read_flow(document, new_id=new_task_id, now=SystemClock().now(), user_id=user_id)


async def require_arguments(store: TaskStore, flow: Flow) -> None:
    """Raise InvalidTasks when tasks name registered templates and their inputs do not fit."""
    # Imported here: who only reads tasks, or names none but weft's own executors, must not pay for it.
    from weft.executors.registry import BUILT_IN_IDS

    if not {method_of(task) for task in flow} <= BUILT_IN_IDS - {"template"} | {""}:
        from weft.runs.template_tasks import require_arguments

        await require_arguments(store, flow)


async def task_templates(
    store: TaskStore, owner: Owner, names: Collection[str] | None = None
) -> Sequence[RegisteredTemplate]:
    """The templates that tasks made on behalf of the owner can name: all, or those of the names there are."""
    return await store.templates(owner=Owner(owner.user_id), names=names)


async def named_templates(
    store: TaskStore, owner: Owner, names: Collection[str]
) -> dict[str, RegisteredTemplate]:
    """The templates, or versions of them (`review@2`), that tasks of the owner can name so, by that name."""
    # Imported here: as above.
    from weft.runs.templates import UnknownTemplate, find_template

    found = {}
    for name in dict.fromkeys(names):
        with suppress(UnknownTemplate):
            found[name] = await find_template(store, name, user_id=owner.user_id)
    return found
