"""What is asked of a flow before it is stored, besides the rules of the record protocol."""

from weft.store.protocol import TaskStore
from weft.tasks.flow import Flow
from weft.tasks.record import method_of


async def require_arguments(store: TaskStore, flow: Flow) -> None:
    """Raise InvalidTasks when tasks name registered templates and their inputs do not fit."""
    # Imported here: who only reads tasks, or names none but weft's own executors, must not pay for it.
    from weft.executors.registry import BUILT_IN_IDS

    if not {method_of(task) for task in flow} <= BUILT_IN_IDS - {"template"} | {""}:
        from weft.runs import template_tasks

        await template_tasks.require_arguments(store, flow)
