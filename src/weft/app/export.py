"""Flows as documents that another store reads."""

from weft.app.app import App
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.program_params import in_folder
from weft.tasks.steps import with_digests


async def exported(app: App, task_id: TaskId) -> Flow:
    """Return the flow a task is in, as a document says it.

    Steps have what they are found by elsewhere. Programs have no folder: the reader's project applies.
    """
    flow = await app.flow_of(task_id)
    digests = await app.store.digests_of(flow.root.id)
    tasks = (in_folder(task, None) for task in flow)
    return Flow(with_digests(task, digests[task.id]) if task.id in digests else task for task in tasks)
