"""What must hold of a store, whatever happened to the processes, clocks and connections that used it.

`check_store` and `check_flow` hold whenever nobody writes at that moment, whatever is still to be done;
`check_over` is for flows that should have come to their end.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from weft.ids import TaskId
from weft.store.protocol import EVERYONE, EventFilter, TaskFilter, TaskStore
from weft.tasks.events import Event, EventType
from weft.tasks.flow import Flow, find_step_owners, reachable
from weft.tasks.questions import is_open_question
from weft.tasks.record import Status, Task
from weft.tasks.steps import is_step
from weft.tasks.summary import blocked, scheduled

_PAGE = 1000

_ENDINGS = {
    EventType.TASK_COMPLETED: Status.COMPLETED,
    EventType.TASK_FAILED: Status.FAILED,
    EventType.TASK_CANCELLED: Status.CANCELLED,
}

_MOVES: dict[tuple[Status, EventType], Status] = {
    (Status.PENDING, EventType.TASK_STARTED): Status.IN_PROGRESS,
    (Status.PENDING, EventType.TASK_CANCELLED): Status.CANCELLED,
    (Status.IN_PROGRESS, EventType.TASK_PROGRESSED): Status.IN_PROGRESS,
    (Status.IN_PROGRESS, EventType.TASK_SUSPENDED): Status.PENDING,
    **{(Status.IN_PROGRESS, kind): status for kind, status in _ENDINGS.items()},
    (Status.FAILED, EventType.TASK_RETRIED): Status.PENDING,
}
"""The moves of a task that an engine runs. Released attempts are told apart by `_TaskLog`."""

_STEP_MOVES: dict[tuple[Status, EventType], Status] = {
    (Status.PENDING, EventType.TASK_STARTED): Status.IN_PROGRESS,
    # A later attempt at the run takes a step over: one that is open, or one that failed.
    (Status.IN_PROGRESS, EventType.TASK_STARTED): Status.IN_PROGRESS,
    (Status.FAILED, EventType.TASK_STARTED): Status.IN_PROGRESS,
    **{(Status.IN_PROGRESS, kind): status for kind, status in _ENDINGS.items()},
    # Of a step made of others: the program had its outcome before somebody cancelled it.
    (Status.CANCELLED, EventType.TASK_COMPLETED): Status.COMPLETED,
    (Status.CANCELLED, EventType.TASK_FAILED): Status.FAILED,
}


async def check_store(store: TaskStore) -> None:
    """Raise AssertionError when a flow of the store breaks one of the rules."""
    for root_id in await _roots(store):
        await check_flow(store, root_id)


async def check_flow(store: TaskStore, root_id: TaskId) -> None:
    """Raise AssertionError when the flow breaks one of the rules that hold at any moment."""
    events = await _events(store, root_id)
    flow = await store.flow_of(root_id, owner=EVERYONE)
    problems = [*open_step_problems(flow), *record_problems(flow), *event_problems(flow, events)]
    assert not problems, "\n".join(problems)


async def check_over(store: TaskStore, root_id: TaskId) -> None:
    """Raise AssertionError when something of the flow has no outcome, and no reason to have none."""
    await check_flow(store, root_id)
    assert root_id not in await store.running_flows(owner=EVERYONE), f"flow {root_id} is still to be run"
    problems = list(outcome_problems(await store.flow_of(root_id, owner=EVERYONE)))
    assert not problems, "\n".join(problems)


def open_step_problems(flow: Flow) -> Iterator[str]:
    """Find steps that are open although the run that made them has ended."""
    for step_id, maker in find_step_owners(flow).items():
        step, run = flow[step_id], None if maker is None else flow[maker]
        if run is not None and run.status.is_terminal and not step.status.is_terminal:
            yield f"{_label(step)} is {step.status} below {_label(run)}, which is {run.status}"


def record_problems(flow: Flow) -> Iterator[str]:
    """Find records whose fields contradict their status."""
    for task in flow:
        if task.status.is_terminal != (task.completed_at is not None):
            yield f"{_label(task)} is {task.status} and its completed_at is {task.completed_at}"
        if (task.status is Status.COMPLETED) != (task.result is not None):
            yield f"{_label(task)} is {task.status} and its result is {task.result}"
        if (task.status in (Status.FAILED, Status.CANCELLED)) != (task.error is not None):
            yield f"{_label(task)} is {task.status} and its error is {task.error}"


def outcome_problems(flow: Flow) -> Iterator[str]:
    """Find tasks without an outcome, at the end of a flow, that wait for nothing that could explain it."""
    asking = {task.id for task in flow if is_open_question(task)}
    around = {one for question in asking for one in _ancestors(flow, question)}
    explained = _waiting_for(flow, asking) | blocked(flow) | scheduled(flow)
    for task in flow:
        if task.status.is_terminal or task.id in asking or task.id in explained:
            continue
        if task.id not in around or not is_step(task):  # a step may wait for the question it asks
            yield f"{_label(task)} is {task.status} and waits for nothing"


def event_problems(flow: Flow, events: Sequence[Event]) -> Iterator[str]:
    """Find events that are missing, doubled or out of order, for each task of the flow."""
    if any(later.seq <= earlier.seq for earlier, later in pairwise(events)):
        yield "the numbers of the events do not grow"
    logs = {task.id: _TaskLog(task) for task in flow}
    for event in events:
        log = logs.get(event.task_id)
        if log is not None:
            log.add(event)
    for log in logs.values():
        yield from log.problems()


class _TaskLog:
    """The events of one task, replayed: they must lead from its creation to the status it has."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._is_step = is_step(task)
        self._status = Status.PENDING
        self._attempt = 0
        self._is_released = False
        self._has_moved = False
        self._problems: list[str] = []

    def add(self, event: Event) -> None:
        """Apply the event."""
        kind = event.type
        if kind is EventType.TASK_RELEASED:
            self._release(event)
            return
        if kind is EventType.TASK_STARTED and self._is_released:
            self._is_released = False
            self._status = Status.PENDING
        moves = _STEP_MOVES if self._is_step else _MOVES
        if kind not in {one for _, one in moves}:
            return
        self._has_moved = True
        after = moves.get((self._status, kind))
        if after is None or (self._is_released and kind is not EventType.TASK_CANCELLED):
            self._tell(event, f"although it was {self._status}")
            return
        self._count(event)
        self._status = after

    def problems(self) -> Iterable[str]:
        yield from self._problems
        # A record may come with its outcome from another store, and then has no events here.
        if self._has_moved and self._status is not self._task.status:
            yield f"{_label(self._task)} is {self._task.status}, and its events end with {self._status}"

    def _release(self, event: Event) -> None:
        if self._status is not Status.IN_PROGRESS or self._is_released:
            self._tell(event, f"although it was {self._status}")
        self._count(event)
        self._is_released = True

    def _count(self, event: Event) -> None:
        """Compare the attempt that the event names with the last one that began."""
        attempt = event.facts.get("attempt")
        if attempt is None:
            return
        if event.type is not EventType.TASK_STARTED and attempt != self._attempt:
            self._tell(event, f"of attempt {attempt}, and the last one that began is {self._attempt}")
        elif event.type is EventType.TASK_STARTED and attempt <= self._attempt:
            self._tell(event, f"as attempt {attempt} after attempt {self._attempt}")
        self._attempt = attempt

    def _tell(self, event: Event, why: str) -> None:
        self._problems.append(f"event {event.seq}: {_label(self._task)} {event.type}, {why}")


def _label(task: Task) -> str:
    return f"'{task.name}' ({task.id})"


def _ancestors(flow: Flow, task_id: TaskId) -> Iterator[TaskId]:
    parent = flow[task_id].parent_id
    while parent is not None:
        yield parent
        parent = flow[parent].parent_id


def _waiting_for(flow: Flow, first: set[TaskId]) -> set[TaskId]:
    waiting = {
        task_id: [one for one in dependents if flow[one].status is Status.PENDING]
        for task_id, dependents in flow.dependents.items()
    }
    return set(reachable(sorted(first), waiting)) - first


async def _roots(store: TaskStore) -> list[TaskId]:
    found: list[TaskId] = []
    while True:
        page = await store.list(TaskFilter(only_roots=True, limit=_PAGE, offset=len(found)), owner=EVERYONE)
        found += [task.id for task in page.tasks]
        if not page.tasks:
            return found


async def _events(store: TaskStore, root_id: TaskId) -> list[Event]:
    found: list[Event] = []
    while True:
        after = found[-1].seq if found else 0
        page = await store.events(EventFilter(tree=root_id, after=after, limit=_PAGE), owner=EVERYONE)
        found += page
        if not page:
            return found
