"""What must be true when a simulation is over, whatever was broken."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.invariants import event_problems, open_step_problems, outcome_problems, record_problems
from tests.simulation.world import Findings, simulate
from weft.ids import TaskId
from weft.tasks.events import Event, EventType
from weft.tasks.flow import Flow


def violations_of(seed: int) -> list[str]:
    """Simulate a seed and return what is wrong with it; a simulation that breaks off is wrong, too."""
    try:
        return violations(simulate(seed))
    except Exception as error:
        return [f"the simulation broke off: {type(error).__name__}: {error}"]


def violations(findings: Findings) -> list[str]:
    """Return every way in which a promise was broken."""
    events: defaultdict[TaskId, list[Event]] = defaultdict(list)
    for event in findings.events:
        events[event.task_tree_id].append(event)
    found = [f"repeated model call: {call}" for call in findings.repeated]
    found += [f"flow {root_id} is still to be run" for root_id in findings.running]
    found += _numbers(findings)
    for flow in findings.flows:
        found += flow_violations(flow, events[flow.root.id])
    return found


def flow_violations(flow: Flow, events: Sequence[Event]) -> Iterator[str]:
    """Return what is wrong with a flow that is over."""
    yield from open_step_problems(flow)
    yield from record_problems(flow)
    yield from event_problems(flow, [event for event in events if not _is_delay_again(event)])
    if flow.root.schedule_type is None:  # else it is a pattern for others, and never run itself
        yield from outcome_problems(flow)


def _is_delay_again(event: Event) -> bool:
    """Return whether the event says that a delay starts again because the clock was put back."""
    return event.type is EventType.TASK_RETRIED and "reason" in event.facts


def _numbers(findings: Findings) -> Iterator[str]:
    """Events are numbered without gaps, and who reads after the last number that he saw misses none."""
    numbers = [event.seq for event in findings.events]
    if numbers != list(range(1, len(numbers) + 1)):
        yield f"the numbers of events have gaps: {numbers}"
    if findings.watched != numbers[: len(findings.watched)]:
        yield "somebody who watched missed events"
