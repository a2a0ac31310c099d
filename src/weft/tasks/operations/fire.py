"""Fire a schedule: run a copy of what it is about, and work out when it is due next."""

from datetime import datetime, timedelta

from msgspec import Struct

from weft.ids import NewTaskId, TaskId
from weft.tasks.changes import Changes, Decision, Found, Needs
from weft.tasks.events import EventType, NewEvent
from weft.tasks.flow import Flow
from weft.tasks.operations.copy import select
from weft.tasks.operations.derive import NewIds, as_copy, derive
from weft.tasks.record import Task, evolve
from weft.tasks.schedule_policies import CatchUp, Overlap, catch_up, overlap
from weft.tasks.schedules import due_between, next_due, schedule_of

ON_TIME = timedelta(seconds=60)
"""How late a scheduler may be without having missed the time."""

MAX_CAUGHT_UP = 100
"""How many missed times one firing looks at; with `all`, the rest follows in the next rounds."""


class Firing(Struct, frozen=True):
    """What became of a schedule that was due: the flow to run, if there is one."""

    run: Flow | None
    due_at: datetime | None


class FireSchedule(Struct, frozen=True, kw_only=True):
    """Fires a schedule whose time has come; its value says what became of it.

    The definition's `next_run_at` moves on in the same transaction. So definition and due time identify a
    firing: of two schedulers that want the same one, the second finds that its time has not come.
    """

    task_id: TaskId
    has_unfinished_run: bool
    new_id: NewTaskId
    now: datetime

    def needs(self) -> Needs:
        return Needs(flows_of=(self.task_id,))

    def decide(self, found: Found) -> Decision[Firing]:
        flow = found.flow_of(self.task_id)
        task = flow[self.task_id]
        schedule = schedule_of(task)
        if (
            schedule is None
            or not task.schedule_enabled
            or task.next_run_at is None
            or task.next_run_at > self.now
        ):
            return Decision(Changes(), Firing(None, None))
        due = (
            task.next_run_at,
            *due_between(schedule, after=task.next_run_at, until=self.now, limit=MAX_CAUGHT_UP),
        )
        chosen, skipped = self._choose(task, due)
        return self._decision(flow, task, chosen, skipped, last=chosen or due[-1])

    def _choose(self, task: Task, due: tuple[datetime, ...]) -> tuple[datetime | None, dict[datetime, str]]:
        """The due time to run now, if any, and why others are passed over."""
        policy = catch_up(task.params)
        if self.has_unfinished_run and overlap(task.params) is Overlap.SKIP:
            return None, dict.fromkeys(due, "an earlier run is not finished")
        if policy is CatchUp.ALL:
            return due[0], {}
        *missed, latest = due
        skipped = dict.fromkeys(missed, "missed; a later time is due as well")
        if policy is CatchUp.SKIP and self.now - latest > ON_TIME:
            return None, {**skipped, latest: "missed"}
        return latest, skipped

    def _decision(
        self, flow: Flow, task: Task, chosen: datetime | None, skipped: dict[datetime, str], last: datetime
    ) -> Decision[Firing]:
        counted = evolve(
            task,
            run_count=task.run_count + (chosen is not None),
            last_run_at=self.now if chosen is not None else task.last_run_at,
            updated_at=self.now,
        )
        schedule = schedule_of(counted)
        next_run_at = None if schedule is None else next_due(schedule, after=last)
        counted = evolve(counted, next_run_at=next_run_at)
        events = [
            self._event(task, EventType.SCHEDULE_SKIPPED, {"due_at": at.isoformat(), "why": why})
            for at, why in skipped.items()
        ]
        if next_run_at is None:
            events.append(self._event(task, EventType.SCHEDULE_ENDED, {"runs": counted.run_count}))
        if chosen is None:
            return Decision(Changes(updated=(counted,), events=tuple(events)), Firing(None, None))
        made = self._copy(flow, chosen)
        events.append(
            self._event(
                task, EventType.SCHEDULE_FIRED, {"due_at": chosen.isoformat(), "run": made.value.root.id}
            )
        )
        changes = Changes(
            added=made.changes.added,
            updated=(counted,),
            recounted=made.changes.recounted,
            run=(made.value.root.id,),
            events=(*events, *made.changes.events),
        )
        return Decision(changes, Firing(made.value, chosen))

    def _copy(self, flow: Flow, due_at: datetime) -> Decision[Flow]:
        """The copy to run: of the whole tree for a root, else of the task and all it depends on."""
        selected = select(flow, self.task_id, with_dependencies=True)
        firing = {"definition": self.task_id, "due_at": due_at.isoformat()}

        def make(task: Task, new_ids: NewIds) -> Task:
            copy = as_copy(task, new_ids)
            if task.id == self.task_id:
                copy = evolve(copy, params={**(copy.params or {}), "firing": firing})
            return copy

        return derive(flow, selected, make, new_id=self.new_id, now=self.now)

    def _event(self, task: Task, kind: EventType, facts: dict[str, object]) -> NewEvent:
        return NewEvent(kind, task.id, task.task_tree_id or task.id, task.user_id, self.now, facts)
