"""Export flows for another store."""

from weft.app.app import App
from weft.ids import TaskId
from weft.tasks.flow import Flow
from weft.tasks.program_params import in_folder
from weft.tasks.steps import with_digests


async def export_flow(app: App, task_id: TaskId) -> Flow:
    """Return the flow of a task in its portable form.

    Steps include their digests, so that another store can reuse them. Programs have no folder: they will run
    in the project of the importing store.
    """
    flow = await app.flow_of(task_id)
    digests = await app.store.digests_of(flow.root.id)
    tasks = (in_folder(task, None) for task in flow)
    return Flow(with_digests(task, digests[task.id]) if task.id in digests else task for task in tasks)
