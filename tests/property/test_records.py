"""Whatever a record holds: JSON gives it back, and no move breaks it."""

from datetime import datetime, timedelta

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.builders import NOON, in_status
from tests.examples import examples
from tests.property.strategies import json_objects, tasks, texts
from tests.unit.tasks.test_states import ALLOWED
from weft.ids import TaskId
from weft.tasks.parsing.fields import read_task
from weft.tasks.parsing.problems import decode, is_json, task_object
from weft.tasks.parsing.rules import checked_task, consistency_problems
from weft.tasks.record import Origin, Status, Task, evolve
from weft.tasks.states import (
    Cancelled,
    Completed,
    Failed,
    FrozenTask,
    InvalidTransition,
    Move,
    Retried,
    Started,
    transition,
)

LAX = settings(deadline=None, max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])


@LAX
@given(tasks())
def test_any_valid_task_comes_back_equal_from_json_text(task: Task) -> None:
    text = msgspec.json.encode(task_object(task))

    assert checked_task(decode(text)) == (task, [])


@LAX
@given(tasks())
def test_a_printed_task_is_plain_json(task: Task) -> None:
    assert is_json(task_object(task))


@LAX
@given(st.dictionaries(st.sampled_from(Task.__struct_fields__) | texts, st.none() | texts | json_objects))
def test_an_object_is_a_task_or_has_problems_and_never_both(raw: dict[str, object]) -> None:
    task, problems = read_task(raw)

    assert (task is None) == bool(problems)
    assert all(msgspec.json.encode(problem) for problem in problems)


moments = st.integers(0, 10**6).map(lambda seconds: NOON + timedelta(seconds=seconds))


class TaskLife(RuleBasedStateMachine):
    """One task under any moves: it is always consistent, and a refused move changes nothing."""

    @initialize(is_archived=st.booleans())
    def begin(self, is_archived: bool) -> None:
        archived = {"origin_type": Origin.ARCHIVE, "original_task_id": TaskId("b")}
        self.task = in_status(Status.COMPLETED, **archived) if is_archived else in_status(Status.PENDING)

    def move(self, move: Move) -> None:
        before, copy = self.task, evolve(self.task)
        target = ALLOWED.get((before.status, move.verb))
        try:
            self.task = transition(before, move)
        except FrozenTask:
            assert before.is_frozen
        except InvalidTransition:
            assert target is None
        else:
            assert self.task.status is target
            assert not before.is_frozen
        assert before == copy

    @rule(at=moments)
    def start(self, at: datetime) -> None:
        self.move(Started(at))

    @rule(at=moments, result=json_objects)
    def complete(self, at: datetime, result: dict[str, object]) -> None:
        self.move(Completed(at, result))

    @rule(at=moments, error=st.text())
    def fail(self, at: datetime, error: str) -> None:
        self.move(Failed(at, error))

    @rule(at=moments, error=st.text())
    def cancel(self, at: datetime, error: str) -> None:
        self.move(Cancelled(at, error))

    @rule(at=moments)
    def retry(self, at: datetime) -> None:
        self.move(Retried(at))

    @invariant()
    def the_task_breaks_no_rule(self) -> None:
        if hasattr(self, "task"):
            assert consistency_problems(self.task) == []
            assert 0.0 <= self.task.progress <= 1.0


TaskLife.TestCase.settings = settings(deadline=None, max_examples=examples(60), stateful_step_count=20)
TestTaskLife = TaskLife.TestCase
