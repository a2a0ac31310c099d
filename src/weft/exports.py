"""Flows as documents that another store reads."""

from weft.app import App
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.steps import with_digests


async def exported(app: App, task_id: TaskId) -> Flow:
    """The flow a task is in, as a document says it: steps have what they are found by elsewhere."""
    flow = await app.flow_of(task_id)
    digests = await app.store.digests_of(flow.root.id)
    if not digests:
        return flow
    return Flow(with_digests(task, digests[task.id]) if task.id in digests else task for task in flow)
