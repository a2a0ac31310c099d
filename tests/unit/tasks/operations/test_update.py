"""What an owner may change in a stored task, and when."""

from datetime import timedelta
from typing import Any

import pytest

from tests.builders import NOON, a_flow, found_in, in_status, named, with_task
from weft.ids import TaskId
from weft.tasks.decisions import Snapshot, WriteSet
from weft.tasks.events import EventType
from weft.tasks.flow import Flow, TaskNotFound
from weft.tasks.operations import ChangeRun, UpdateTask
from weft.tasks.parsing.problems import InvalidTasks
from weft.tasks.record import FIELD_NAMES, Origin, Status, Task, evolve
from weft.tasks.states import FrozenTask

LATER = NOON + timedelta(hours=1)
UNKNOWN = TaskId("ffffffff-0000-4000-8000-000000000000")
CHANGEABLE: dict[str, Any] = {
    "name": "other",
    "priority": 0,
    "inputs": {"a": 1},
    "schemas": {"method": "m"},
    "params": {"p": 1},
    "dependencies": [],
    "schedule_type": "daily",
    "schedule_expression": "09:00",
    "schedule_enabled": False,
    "schedule_start_at": "2025-01-01T00:00:00Z",
    "schedule_end_at": "2026-01-01T00:00:00Z",
    "max_runs": 3,
}
SCHEDULE = {"schedule_enabled": True, "schedule_type": "daily", "schedule_expression": "09:00"}


@pytest.fixture
def flow() -> Flow:
    return a_flow("root", "a", {"name": "b", "dependencies": ["a"]}, user_id="ann")


def update(flow: Flow, name: str, fields: dict[str, Any]) -> WriteSet:
    operation = UpdateTask(task_id=named(flow, name).id, fields=fields, now=LATER)
    return operation.decide(found_in(flow)).changes


def updated(flow: Flow, name: str, fields: dict[str, Any]) -> Task:
    (task,) = update(flow, name, fields).updated
    return task


def refusals(flow: Flow, name: str, fields: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidTasks) as caught:
        update(flow, name, fields)
    return [(problem.path, problem.reason) for problem in caught.value.found]


@pytest.mark.parametrize("field", list(CHANGEABLE))
def test_a_field_its_owner_may_change_is_changed_and_told_of(flow: Flow, field: str) -> None:
    before = flow.root

    changes = update(flow, "root", {field: CHANGEABLE[field]})

    (task,), (event,) = changes.updated, changes.events
    assert {name for name in FIELD_NAMES if getattr(task, name) != getattr(before, name)} <= {
        field,
        "updated_at",
    }
    assert task.updated_at == LATER
    assert (event.type, event.facts, event.user_id) == (EventType.TASK_UPDATED, {"fields": [field]}, "ann")


@pytest.mark.parametrize("field", sorted(set(FIELD_NAMES) - set(CHANGEABLE)))
@pytest.mark.parametrize("value", [None, "x"])
def test_every_other_field_is_never_changed(flow: Flow, field: str, value: object) -> None:
    ((path, reason),) = refusals(flow, "root", {field: value})

    assert path == field
    assert reason.startswith(f"{field} cannot be updated: ")


def test_even_the_same_value_of_such_a_field_is_refused(flow: Flow) -> None:
    assert len(refusals(flow, "root", {"parent_id": None, "user_id": "ann"})) == 2


@pytest.mark.parametrize("status", list(Status))
@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("dependencies", {Status.PENDING}),
        ("inputs", {Status.PENDING, Status.FAILED}),
        ("schemas", {Status.PENDING, Status.FAILED}),
        ("name", set(Status)),
        ("priority", set(Status)),
    ],
)
def test_what_an_attempt_has_used_stays(flow: Flow, status: Status, field: str, allowed: set[Status]) -> None:
    state = in_status(status)
    changes = {
        name: getattr(state, name)
        for name in ("status", "started_at", "completed_at", "result", "error", "progress")
    }
    flow = with_task(flow, evolve(flow.root, **changes))

    if status in allowed:
        assert updated(flow, "root", {field: CHANGEABLE[field]}).status is status
    else:
        ((path, reason),) = refusals(flow, "root", {field: CHANGEABLE[field]})
        assert path == field
        assert reason.endswith(f"it is {status}")


@pytest.mark.parametrize(
    ("fields", "path", "reason"),
    [
        ({"priorty": 1}, "priorty", "did you mean 'priority'?"),
        ({"priority": 9}, "priority", "greater than the maximum"),
        ({"name": ""}, "name", "must not be empty"),
        ({"name": None}, "name", "must be string, not null"),
        ({"name": "\ud800"}, "name", "cannot be written as JSON"),
        ({"inputs": {"a": float("nan")}}, "inputs", "cannot be written as JSON"),
        ({"inputs": None}, "inputs", "must be object"),
        ({"schemas": {"type": "local"}}, "schemas.method", "'method' is missing"),
        (
            {"schemas": {"method": "m", "input_schema": {"required": ["a"]}}},
            "inputs",
            '"a" is a required property',
        ),
        ({"schedule_enabled": True}, "schedule_type", "must be set when schedule_enabled is true"),
        ({**SCHEDULE, "schedule_expression": "25:00"}, "schedule_expression", "expected"),
        ({**SCHEDULE, "params": {"timezone": "Nowhere"}}, "params.timezone", "expected"),
        ({"dependencies": [{"id": "b"}]}, "dependencies[0].id", "'b' is not a UUID v4"),
        ({"dependencies": [{"id": UNKNOWN}]}, "dependencies[0]", "is not a task of this flow"),
    ],
)
def test_a_wrong_value_is_refused(flow: Flow, fields: dict[str, Any], path: str, reason: str) -> None:
    found = refusals(flow, "root", fields)

    assert found[0][0] == path
    assert reason in found[0][1]


def test_all_wrong_fields_are_reported_at_once(flow: Flow) -> None:
    assert [path for path, _ in refusals(flow, "root", {"id": "x", "colour": 1, "status": "completed"})] == [
        "id",
        "colour",
        "status",
    ]
    fields = {"priority": 9, "schedule_enabled": True}
    assert {path for path, _ in refusals(flow, "root", fields)} == {
        "priority",
        "schedule_type",
        "schedule_expression",
    }


def test_new_dependencies_are_checked_against_the_flow(flow: Flow) -> None:
    a, b = named(flow, "a").id, named(flow, "b").id

    assert [d.id for d in updated(flow, "root", {"dependencies": [{"id": b.upper()}]}).dependencies] == [b]
    assert refusals(flow, "a", {"dependencies": [{"id": b}]}) == [
        ("dependencies", "dependencies form a cycle: a -> b -> a")
    ]
    assert "itself" in refusals(flow, "a", {"dependencies": [{"id": a}]})[0][1]
    assert "twice" in refusals(flow, "root", {"dependencies": [{"id": a}, {"id": a}]})[0][1]


def test_only_new_dependencies_need_the_whole_flow(flow: Flow) -> None:
    task_id = flow.root.id

    assert UpdateTask(task_id=task_id, fields={"dependencies": []}, now=NOON).needs().flows_of == (task_id,)
    assert UpdateTask(task_id=task_id, fields={"name": "x"}, now=NOON).needs().flows_of == ()


def test_a_changed_schedule_is_planned_anew_and_another_change_leaves_the_plan(flow: Flow) -> None:
    on = updated(flow, "root", SCHEDULE)
    with_plan = with_task(flow, on)
    moved = updated(with_plan, "root", {"schedule_expression": "10:00"})
    off = updated(with_plan, "root", {"schedule_enabled": False})
    renamed = updated(with_plan, "root", {"name": "other"})

    tomorrow = NOON + timedelta(days=1)
    assert on.next_run_at == tomorrow.replace(hour=9)
    assert moved.next_run_at == tomorrow.replace(hour=10)
    assert off.next_run_at is None
    assert renamed.next_run_at == on.next_run_at


def test_max_runs_cannot_fall_below_the_runs_there_were(flow: Flow) -> None:
    ran = with_task(flow, evolve(flow.root, run_count=5))

    ((path, _),) = refusals(ran, "root", {"max_runs": 4})
    assert path == "run_count"
    assert updated(ran, "root", {"max_runs": 5}).max_runs == 5


def test_a_task_that_is_not_there_cannot_be_updated() -> None:
    with pytest.raises(TaskNotFound):
        UpdateTask(task_id=UNKNOWN, fields={"name": "x"}, now=NOON).decide(Snapshot())


@pytest.mark.parametrize("params", [{}, None, {"retry": {"attempts": 3}}])
def test_a_run_keeps_its_program(flow: Flow, params: Any) -> None:
    program = {"main": {"name": "x", "text": "(+ 1 2)"}}
    flow = with_task(flow, evolve(flow.root, params={"program": program}))

    ((path, reason),) = refusals(flow, "root", {"params": params})

    assert path == "params"
    assert "must keep 'program'" in reason
    assert updated(flow, "root", {"params": {"program": program, "p": 1}}).params == {
        "program": program,
        "p": 1,
    }


def test_options_of_an_archived_run_do_not_change(flow: Flow) -> None:
    archived = evolve(named(flow, "a"), status=Status.COMPLETED, origin_type=Origin.ARCHIVE)
    change = ChangeRun(task_id=archived.id, params={"program": {}}, now=LATER)

    with pytest.raises(FrozenTask):
        change.decide(found_in(with_task(flow, archived)))
