"""What must be true when a simulation is over, whatever was broken."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from tests.simulation.world import Findings
from weft.ids import TaskId
from weft.tasks.events import Event, EventType
from weft.tasks.flow import Flow
from weft.tasks.record import Status, Task
from weft.tasks.steps import is_step
from weft.tasks.summary import blocked

_ENDS = {
    EventType.TASK_COMPLETED: Status.COMPLETED,
    EventType.TASK_FAILED: Status.FAILED,
    EventType.TASK_CANCELLED: Status.CANCELLED,
}
_RELEASED = (EventType.TASK_GIVEN_BACK, EventType.TASK_RESTED)


def violations(findings: Findings) -> list[str]:
    """Return every way in which a promise was broken."""
    events: defaultdict[TaskId, list[Event]] = defaultdict(list)
    for event in findings.events:
        events[event.task_id].append(event)
    found = [f"repeated model call: {call}" for call in findings.repeated]
    found += [f"flow {root_id} is still to be run" for root_id in findings.running]
    found += _numbers(findings)
    for flow in findings.flows:
        found += flow_violations(flow, events)
    return found


def flow_violations(flow: Flow, events: Mapping[TaskId, list[Event]]) -> Iterator[str]:
    """Return what is wrong with a flow that is over, given the events of its tasks."""
    stuck = blocked(flow)
    for task in flow:
        yield from (f"{_shown(task)}: {text}" for text in _waiting(flow, task, stuck))
        yield from (f"{_shown(task)}: {text}" for text in _history(task, events[task.id]))


def _shown(task: Task) -> str:
    return f"{task.name} ({task.id}, {task.status})"


def _numbers(findings: Findings) -> Iterator[str]:
    """Events are numbered without gaps, and who reads after the last number that he saw misses none."""
    numbers = [event.seq for event in findings.events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the numbers of events have gaps: {numbers}"
    if findings.watched != numbers[: len(findings.watched)]:
        yield "somebody who watched missed events"


def _waiting(flow: Flow, task: Task, stuck: set[TaskId]) -> Iterator[str]:
    """Nothing is open below what has ended, and nothing waits without a reason."""
    if task.status.is_terminal:
        return
    around = task.parent_id
    while is_step(task) and around is not None and around in flow:
        if flow[around].status.is_terminal:
            yield f"open below {_shown(flow[around])}"
            return
        around = flow[around].parent_id
    if task.status is Status.IN_PROGRESS:
        yield "in progress, and nobody works on it"
    elif task.id not in stuck and not task.schedule_enabled and not _is_definition(flow, task):
        yield "pending without a reason"


def _is_definition(flow: Flow, task: Task) -> bool:
    """Whether the task waits for a schedule: its flow is only a pattern for others."""
    return flow.root.schedule_type is not None


def _history(task: Task, events: list[Event]) -> Iterator[str]:
    """The events of a task are those of one that ran in one place at a time and has one outcome."""
    ends = [event for event in events if event.type in _ENDS]
    kinds = [event.type for event in events]
    if kinds.count(EventType.TASK_COMPLETED) + kinds.count(EventType.TASK_CANCELLED) > 1 and not is_step(
        task
    ):
        yield f"more than one outcome: {kinds}"
    if kinds.count(EventType.TASK_COMPLETED) > 1:
        yield f"completed more than once: {kinds}"
    has_end = bool(ends) and EventType.TASK_RETRIED not in kinds[kinds.index(ends[-1].type) :]
    if has_end and task.status.is_terminal and _ENDS[ends[-1].type] is not task.status:
        yield f"its last event is {ends[-1].type}"
    if task.status.is_terminal and not ends and task.original_task_id is None:
        yield f"ended without an event: {kinds}"
    if not is_step(task):
        yield from _attempts(events)


def _attempts(events: list[Event]) -> Iterator[str]:
    """Attempts are numbered one after the other, and each ends before the next begins."""
    running, last = False, 0
    for event in events:
        if event.type is EventType.TASK_STARTED:
            attempt = int(event.facts["attempt"])
            if running:
                yield f"attempt {attempt} began while {last} ran"
            if attempt != last + 1:
                yield f"attempt {attempt} came after {last}"
            running, last = True, attempt
        elif event.type in _ENDS or event.type in _RELEASED:
            running = False
