"""Fire a schedule: run a copy of the scheduled task, and compute when it is due next."""

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from weft.ids import NewTaskId
from weft.tasks.decisions import Decision, FlowOperation, ReadSet, Snapshot, TaskOperation, WriteSet
from weft.tasks.events import EventType, task_event
from weft.tasks.flow import Flow
from weft.tasks.operations.copy import NewIds, as_copy, derive, select, with_params
from weft.tasks.record import Task, evolve
from weft.tasks.schedules.schedule import (
    CatchUp,
    Overlap,
    Schedule,
    catch_up,
    count_between,
    next_due,
    overlap,
    planned,
    previous_due,
    schedule_of,
    waits,
)

ON_TIME = timedelta(seconds=60)
"""How late a scheduler may be before a due time counts as missed."""

MAX_COUNTED = 1000
"""Maximum number of skipped times to count (about 30 ms); beyond it, the event says "at least"."""


class Firing(Struct, frozen=True):
    """The result of firing a schedule: the flow to run, if any."""

    run: Flow | None = None
    due_at: datetime | None = None
    is_due_again: bool = False
    """Whether the next run can be made at once: more due times were missed, and runs may overlap."""


class _Skipped(Struct, frozen=True):
    """Due times that are skipped, from the first to the last, and the reason."""

    first: datetime
    last: datetime
    why: str


class FireSchedule(FlowOperation, frozen=True, kw_only=True):
    """Fires a schedule that is due; the value is a `Firing`.

    `next_run_at` of the scheduled task is advanced in the same transaction. So the task and the due time
    identify a firing: if two schedulers fire the same one, the second finds that the task is not due.
    Unfinished runs are read in the transaction too: if two schedulers fire different due times, the
    second finds the run of the first.
    """

    new_id: NewTaskId
    now: datetime

    def needs(self) -> ReadSet:
        return ReadSet(flows_of=(self.task_id,), unfinished_runs_of=(self.task_id,))

    def decide(self, found: Snapshot) -> Decision[Firing]:
        flow = found.flow_of(self.task_id)
        task = flow[self.task_id]
        schedule = schedule_of(task)
        has_unfinished_run = self.task_id in found.with_unfinished_runs
        if (
            schedule is None
            or not task.schedule_enabled
            or task.next_run_at is None
            or task.next_run_at > self.now
            or waits(task.params, has_unfinished_run=has_unfinished_run)
        ):
            return Decision(WriteSet(), Firing())
        first = task.next_run_at
        if catch_up(task.params) is CatchUp.ALL:
            return self._decision(flow, schedule, first, None, last=first)
        latest = _last(schedule, first, before=self.now + timedelta.resolution)
        if has_unfinished_run and overlap(task.params) is Overlap.SKIP:
            skipped = _Skipped(first, latest, "an earlier run is not finished")
            return self._decision(flow, schedule, None, skipped, last=latest)
        if catch_up(task.params) is CatchUp.SKIP and self.now - latest > ON_TIME:
            return self._decision(flow, schedule, None, _Skipped(first, latest, "missed"), last=latest)
        return self._decision(flow, schedule, latest, _missed(schedule, first, latest), last=latest)

    def _decision(
        self,
        flow: Flow,
        schedule: Schedule,
        chosen: datetime | None,
        skipped: _Skipped | None,
        *,
        last: datetime,
    ) -> Decision[Firing]:
        """Return the decision to run `chosen`, if any; the next due time is the first one after `last`."""
        task = flow[self.task_id]
        run_count = task.run_count + (chosen is not None)
        next_run_at = next_due(msgspec.structs.replace(schedule, run_count=run_count), after=last)
        moved = evolve(
            task,
            run_count=run_count,
            last_run_at=task.last_run_at if chosen is None else self.now,
            next_run_at=next_run_at,
            updated_at=self.now,
        )
        events = []
        if skipped is not None:
            events.append(
                task_event(EventType.SCHEDULE_SKIPPED, task, self.now, _skip_facts(schedule, skipped))
            )
        if next_run_at is None:
            events.append(task_event(EventType.SCHEDULE_ENDED, task, self.now, {"runs": run_count}))
        if chosen is None:
            return Decision(WriteSet(updated=(moved,), events=tuple(events)), Firing())
        made = self._copy(flow, chosen)
        fired: dict[str, object] = {"due_at": chosen.isoformat(), "run": made.value.root.id}
        events.append(task_event(EventType.SCHEDULE_FIRED, task, self.now, fired))
        changes = WriteSet(
            added=made.changes.added,
            updated=(moved,),
            recounted=made.changes.recounted,
            run=(made.value.root.id,),
            events=(*events, *made.changes.events),
        )
        is_due_again = (
            next_run_at is not None
            and next_run_at <= self.now
            and not waits(task.params, has_unfinished_run=True)
        )
        return Decision(changes, Firing(made.value, chosen, is_due_again))

    def _copy(self, flow: Flow, due_at: datetime) -> Decision[Flow]:
        """Return the copy to run: the whole tree for a root, otherwise the task and all it depends on."""
        selected = select(flow, self.task_id, with_dependencies=True)
        firing = {"definition": self.task_id, "due_at": due_at.isoformat()}

        def make(task: Task, new_ids: NewIds) -> Task:
            copy = as_copy(task, new_ids)
            return with_params(copy, firing=firing) if task.id == self.task_id else copy

        return derive(flow, selected, make, new_id=self.new_id, now=self.now)


class ReplanSchedule(TaskOperation, frozen=True):
    """Recomputes the due time of a schedule that was fired in the future; the value is whether it was.

    A firing is in the future when the clock has been set back since.
    """

    now: datetime

    def decide(self, found: Snapshot) -> Decision[bool]:
        task = found.task(self.task_id)
        if not is_fired_in_future(task, self.now):
            return Decision(WriteSet(), False)
        moved = evolve(planned(task, after=self.now), updated_at=self.now)
        facts = {"from": shown_time(task.next_run_at), "to": shown_time(moved.next_run_at)}
        facts["why"] = "the clock was put back"
        event = task_event(EventType.SCHEDULE_REPLANNED, task, self.now, facts)
        return Decision(WriteSet(updated=(moved,), events=(event,)), True)


def is_fired_in_future(task: Task, now: datetime) -> bool:
    """Return whether an enabled schedule was last fired or changed by a clock that was far ahead."""
    changed_at = task.updated_at
    return task.schedule_enabled and changed_at is not None and changed_at > now + ON_TIME


def shown_time(at: datetime | None) -> str | None:
    """Return the time in the form of event facts."""
    return None if at is None else at.isoformat()


def _last(schedule: Schedule, first: datetime, *, before: datetime) -> datetime:
    """Return the last due time before `before`, but at least `first`, which is always due."""
    return max(first, previous_due(schedule, before=before) or first)


def _missed(schedule: Schedule, first: datetime, latest: datetime) -> _Skipped | None:
    """Return the due times before the latest one; None if there are no others."""
    if first == latest:
        return None
    return _Skipped(first, _last(schedule, first, before=latest), "missed; a later time is due as well")


def _skip_facts(schedule: Schedule, skipped: _Skipped) -> dict[str, object]:
    further = count_between(schedule, after=skipped.first, until=skipped.last, limit=MAX_COUNTED)
    return {
        "from": skipped.first.isoformat(),
        "to": skipped.last.isoformat(),
        "times" if further < MAX_COUNTED else "times_at_least": 1 + further,
        "why": skipped.why,
    }
