"""Runs that go on: what may be another for the rest of them, and what may not."""

from collections.abc import Iterable

from msgspec import Struct, structs

from weft.app import App
from weft.errors import RequestError
from weft.ids import TaskId
from weft.people import wake
from weft.runs.errors import NoRun
from weft.runs.program import NoProgram, StoredProgram, as_params, program_of
from weft.runs.template_tasks import is_run
from weft.store.protocol import EventFilter
from weft.tasks.events import EventType
from weft.tasks.operations import ChangeRun
from weft.tasks.record import Status, Task
from weft.tasks.states import InvalidTransition


class CannotChange(RequestError):
    """A run that goes on cannot have what was asked for in the place of what it began with."""

    code = "cannot-change"


class RunChanges(Struct, frozen=True, kw_only=True):
    """What is another from now on, and is stored with the run."""

    limits: dict[str, float] = {}
    """Budgets count what the run has used before, too; a time limit begins anew with each evaluation."""
    is_fresh: bool = False
    """Whether models are asked also what another run has asked them before."""

    def __bool__(self) -> bool:
        return bool(self.limits) or self.is_fresh

    def applied(self, program: StoredProgram) -> StoredProgram:
        """The program with them."""
        return structs.replace(
            program,
            limits={**program.limits, **self.limits},
            is_reusing=program.is_reusing and not self.is_fresh,
        )


def require_settled(asked: Iterable[str]) -> None:
    """Raise CannotChange when somebody asked for one of the things that a run keeps as they were."""
    names = list(asked)
    if names:
        raise CannotChange(
            f"{', '.join(names)}: a run that goes on keeps the program, library, model, inputs and name it "
            f"began with; make a new run, which reuses what models have answered"
        )


async def begin_again(app: App, task_id: TaskId, changes: RunChanges | None = None) -> TaskId:
    """Ask for a run to go on, one that has failed too: the steps that ended it are performed again.

    Raises NoRun, before anything is performed, when the task is in a flow of another kind.
    """
    task = await app.get(task_id)
    root = await app.get(task.task_tree_id or task.id)
    if not await is_run(app.store, root):
        raise NoRun(root_id=root.id, name=root.name)
    if changes:
        root = await _changed(app, root, changes)
    if root.status is Status.FAILED:
        await _retried(app, root.id)
    root_id = await app.begin(root.id)
    await wake(app, root_id, only_overdue=True)
    return root_id


async def _retried(app: App, root_id: TaskId) -> None:
    try:
        await app.retry(root_id)
    except InvalidTransition:
        if (await app.get(root_id)).status is Status.FAILED:
            raise
        # Somebody else has asked for the same a moment ago: both have it go on.


async def _changed(app: App, root: Task, changes: RunChanges) -> Task:
    """The run with the changes stored; raises CannotChange."""
    try:
        program = program_of(root)
    except NoProgram:
        raise CannotChange(f"{root.id} is no run of a program: it has no budget and reuses nothing") from None
    await app.engine()  # what a process that died was evaluating is given back
    root = await app.get(root.id)
    if root.status in (Status.COMPLETED, Status.CANCELLED):
        raise CannotChange(f"run {root.id} is {root.status}: nothing is left of it to do")
    if root.status is Status.IN_PROGRESS and not await _is_given_back(app, root.id):
        raise CannotChange(f"run {root.id} is under way in another process; stop that one first")
    change = ChangeRun(task_id=root.id, params=as_params(changes.applied(program)), now=app.now())
    return await app.store.operate(change, owner=app.owner)


async def _is_given_back(app: App, task_id: TaskId) -> bool:
    """Whether nobody evaluates a run that has begun."""
    held, after = False, 0
    while events := await app.events(EventFilter(tree=task_id, task=task_id, after=after)):
        after = events[-1].seq
        for event in events:
            if event.type in (EventType.TASK_STARTED, EventType.TASK_GIVEN_BACK):
                held = event.type is EventType.TASK_STARTED
    return not held
