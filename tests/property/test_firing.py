"""Firing schedules, whatever the clock does, against a model that looks at every due time."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from tests.builders import numbered_ids, with_task
from tests.examples import examples
from tests.property.test_schedules import CLOCK_CHANGES, fields
from weft.tasks.decisions import Snapshot
from weft.tasks.operations import FireSchedule, Firing
from weft.tasks.parsing.flow_parser import read_flow
from weft.tasks.schedules.schedule import Schedule, next_due, schedule_of

DAY = timedelta(days=1)
HORIZON = 400 * DAY
ON_TIME = timedelta(minutes=1)
PER_ROUND = 120


class Step(Struct, frozen=True):
    """The clock is put forward or back, the runs under way end or not, and schedules are fired."""

    due_times: int
    """How many due times the clock is put forward by, to the very moment."""
    advance: timedelta
    runs_end: bool


class Case(Struct, frozen=True):
    """A definition, as a document, and what happens to it."""

    created_at: datetime
    definition: dict[str, Any]
    steps: list[Step]


class World:
    """A definition in a store of its own, and a scheduler of its own."""

    def __init__(self, case: Case) -> None:
        self.flow = read_flow([case.definition], new_id=numbered_ids(), now=case.created_at)
        self.is_running = False
        self.passed_over = 0
        self._new_id = numbered_ids("b")

    def fire(self, now: datetime) -> list[datetime]:
        """Return the due times for which one round makes runs."""
        fired: list[datetime] = []
        firing = self._fire(now)
        while firing.due_at is not None:
            fired.append(firing.due_at)
            if not firing.is_due_again or len(fired) == PER_ROUND:
                break
            firing = self._fire(now)
        return fired

    def _fire(self, now: datetime) -> Firing:
        task_id = self.flow.root.id
        running = frozenset({task_id}) if self.is_running else frozenset()
        operation = FireSchedule(task_id=task_id, new_id=self._new_id, now=now)
        decision = operation.decide(Snapshot(flows={task_id: self.flow}, with_unfinished_runs=running))
        for task in decision.changes.updated:
            self.flow = with_task(self.flow, task)
        self.is_running = self.is_running or decision.value.run is not None
        for event in decision.changes.events:
            self.passed_over += event.facts.get("times") or event.facts.get("times_at_least") or 0
        return decision.value


class Model:
    """The same by looking at every due time in turn."""

    def __init__(self, case: Case) -> None:
        params = case.definition["params"]
        self.policy, self.may_overlap = params["catchup"], params["overlap"] == "allow"
        self.runs_left = case.definition.get("max_runs") or 10**9
        self.waiting = deque(every_due_time(case))
        self.is_running = False
        self.passed_over = 0

    def fire(self, now: datetime) -> list[datetime]:
        fired: list[datetime] = []
        missed: list[datetime] = []
        while self.waiting and self.waiting[0] <= now and self.runs_left and len(fired) < PER_ROUND:
            may_run = not self.is_running or self.may_overlap
            if self.policy == "all" and not may_run:
                break
            due = self.waiting.popleft()
            has_later = bool(self.waiting) and self.waiting[0] <= now
            is_wanted = self.policy == "all" or (
                not has_later and (self.policy == "once" or now - due <= ON_TIME)
            )
            if may_run and is_wanted:
                fired.append(due)
                self.is_running = True
                self.runs_left -= 1
            else:
                missed.append(due)
        self.passed_over += min(len(missed), 1001)
        return fired


def every_due_time(case: Case) -> Iterator[datetime]:
    """Yield the due times of a definition since its creation, in order."""
    task = read_flow([case.definition], new_id=numbered_ids(), now=case.created_at).root
    schedule = schedule_of(task)
    assert schedule is not None
    if case.definition["schedule_type"] == "interval":
        yield from interval_times(schedule, int(case.definition["schedule_expression"]), case.created_at)
        return
    due = next_due(schedule, after=case.created_at)
    while due is not None and due <= case.created_at + HORIZON:
        yield due
        due = next_due(schedule, after=due)


def interval_times(schedule: Schedule, seconds: int, created_at: datetime) -> Iterator[datetime]:
    step = timedelta(seconds=seconds)
    due = schedule.start_at or created_at + step
    while due <= min(schedule.end_at or created_at + HORIZON, created_at + HORIZON):
        if due > created_at:
            yield due
        due += step


# At most one time an hour, so that the model can look at a year of them; which are due is another test's.
crons = st.tuples(st.integers(0, 59).map(str), fields(0, 23), fields(0, 7)).map(
    lambda parts: f"{parts[0]} {parts[1].text} * * {parts[2].text}"
)
expressions = st.one_of(
    st.integers(1800, 40 * 86400).map(lambda seconds: ("interval", str(seconds))),
    crons.map(lambda expression: ("cron", expression)),
)
moves = st.one_of(
    st.tuples(
        st.integers(1, 3) | st.integers(1, 2000),
        st.sampled_from([timedelta(0), timedelta.resolution, ON_TIME, ON_TIME + timedelta.resolution])
        | st.timedeltas(-ON_TIME, 2 * ON_TIME),
    ),
    st.tuples(st.just(0), st.timedeltas(-30 * DAY, 365 * DAY)),
)
steps = st.builds(lambda move, runs_end: Step(move[0], move[1], runs_end), moves, st.booleans())
# In days from its creation.
windows = st.tuples(st.none() | st.integers(-10, 100), st.none() | st.integers(100, 410))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    zone, day = draw(st.sampled_from(CLOCK_CHANGES))
    created_at = datetime.fromisoformat(day).replace(tzinfo=UTC) - draw(
        st.timedeltas(timedelta(0), 300 * DAY)
    )
    kind, expression = draw(expressions)
    start, end = draw(windows)
    bounds = {"schedule_start_at": start, "schedule_end_at": end}
    definition = {
        "name": "a",
        "schedule_type": kind,
        "schedule_expression": expression,
        "schedule_enabled": True,
        "max_runs": draw(st.none() | st.integers(1, 200)),
        "params": {
            "timezone": zone,
            "catchup": draw(st.sampled_from(["skip", "once", "all"])),
            "overlap": draw(st.sampled_from(["skip", "allow"])),
        },
        **{key: (created_at + days * DAY).isoformat() for key, days in bounds.items() if days is not None},
    }
    return Case(created_at, definition, draw(st.lists(steps, min_size=2, max_size=12)))


def moved(now: datetime, step: Step, due_times: tuple[datetime, ...]) -> datetime:
    """Return the time after the step."""
    following = bisect_right(due_times, now) + step.due_times - 1
    if step.due_times and following < len(due_times):
        now = due_times[following]
    return now + step.advance


@settings(deadline=None, max_examples=examples(50))
@given(cases())
def test_whatever_the_clock_does_the_runs_are_those_of_the_model(case: Case) -> None:
    world, model = World(case), Model(case)
    due_times = tuple(model.waiting)
    now, all_fired = case.created_at, list[datetime]()
    for step in case.steps:
        now = min(moved(now, step, due_times), case.created_at + HORIZON)
        if step.runs_end:
            world.is_running = model.is_running = False

        fired = world.fire(now)

        assert fired == model.fire(now)
        assert world.passed_over == model.passed_over
        if model.waiting or not model.runs_left:
            assert world.flow.root.next_run_at == (model.waiting[0] if model.runs_left else None)
        all_fired += fired
    assert world.flow.root.run_count == len(all_fired)
    assert len(set(all_fired)) == len(all_fired)
    if case.definition["params"]["catchup"] == "all":
        assert tuple(all_fired) == due_times[: len(all_fired)]
