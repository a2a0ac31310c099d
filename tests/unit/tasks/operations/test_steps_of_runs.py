"""What operations do with the steps of runs: they belong to their run, and are not performed alone."""

from typing import Any

import pytest

from tests.builders import NOON, a_flow, completed, found_in, named, numbered_ids, with_task
from tests.invariants import open_step_problems
from weft.tasks.flow import Flow, find_step_owners
from weft.tasks.operations import ArchiveTasks, CopyTasks, FireSchedule, LinkTasks, RetryTasks
from weft.tasks.operations.copy import IsStep, NotInCopy
from weft.tasks.operations.submit import SubmitFlow, with_ended_steps, without_open_runs
from weft.tasks.parsing.rules import consistency_problems
from weft.tasks.record import Dependency, Origin, ScheduleType, Status, evolve
from weft.tasks.steps import ENDED_WITH_RUN, Digests, digests_of, is_step, with_digests

RUN = {"schemas": {"method": "template"}}


def a_step(name: str, parent: str, key: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "parent_id": parent, "params": {"step": {"key": key, "kind": "atomic"}}, **more}


@pytest.fixture
def flow() -> Flow:
    """Return a flow with a plain task and a run, one step of which has a step below it."""
    return completed(
        a_flow(
            {"name": "root"},
            {"name": "plain"},
            {"name": "run", "dependencies": ["plain"], **RUN},
            a_step("outer", "run", "1"),
            a_step("inner", "outer", "1/0"),
        )
    )


def names(flow: Flow) -> list[str]:
    return [task.name for task, _ in flow.walk()]


def test_steps_are_told_from_other_tasks(flow: Flow) -> None:
    run = named(flow, "run").id
    assert find_step_owners(flow) == {named(flow, "outer").id: run, named(flow, "inner").id: run}


def test_a_task_with_an_executor_is_no_step_whatever_its_params_say() -> None:
    flow = a_flow({"name": "a", "params": {"step": {"key": "1"}}, "schemas": {"method": "noop"}})
    assert not is_step(flow.root)


@pytest.mark.parametrize("with_dependencies", [False, True])
def test_copies_leave_steps_out(flow: Flow, with_dependencies: bool) -> None:
    operation = CopyTasks(
        task_id=flow.root.id, with_dependencies=with_dependencies, new_id=numbered_ids("b"), now=NOON
    )
    copy = operation.decide(found_in(flow)).value

    assert names(copy) == ["root", "plain", "run"]
    assert {task.status for task in copy} == {Status.PENDING}
    assert not named(copy, "run").has_children


def test_the_copy_of_a_run_that_waits_for_a_step_does_not_wait(flow: Flow) -> None:
    waits = Dependency(named(flow, "inner").id)
    flow = with_task(flow, evolve(named(flow, "root"), dependencies=(waits,)))
    copy = CopyTasks(task_id=flow.root.id, new_id=numbered_ids("b"), now=NOON).decide(found_in(flow)).value

    assert copy.root.dependencies == ()


def test_a_mixed_copy_links_runs_as_one_record_and_no_steps(flow: Flow) -> None:
    def mixed(name: str) -> Flow:
        linked = frozenset({named(flow, name).id})
        operation = CopyTasks(task_id=flow.root.id, linked=linked, new_id=numbered_ids("b"), now=NOON)
        return operation.decide(found_in(flow)).value

    assert [(task.name, task.status) for task, _ in mixed("run").walk()] == [
        ("root", Status.PENDING),
        ("plain", Status.PENDING),
        ("run", Status.COMPLETED),
    ]
    with pytest.raises(NotInCopy):
        mixed("outer")


def test_a_step_alone_is_not_copied(flow: Flow) -> None:
    operation = CopyTasks(task_id=named(flow, "inner").id, new_id=numbered_ids("b"), now=NOON)
    with pytest.raises(IsStep) as caught:
        operation.decide(found_in(flow))
    assert caught.value.run_id == named(flow, "run").id


def test_a_link_has_no_steps(flow: Flow) -> None:
    link = LinkTasks(task_id=flow.root.id, new_id=numbered_ids("b"), now=NOON).decide(found_in(flow)).value
    assert names(link) == ["root", "plain", "run"]


def test_a_schedule_fires_runs_without_the_steps_of_another() -> None:
    flow = completed(a_flow({"name": "nightly", **RUN}, a_step("step", "nightly", "1")))
    daily = {"schedule_type": ScheduleType.DAILY, "schedule_expression": "11:59", "schedule_enabled": True}
    root = evolve(flow.root, status=Status.PENDING, next_run_at=NOON, **daily)
    flow = with_task(flow, root)

    fired = FireSchedule(task_id=root.id, new_id=numbered_ids("b"), now=NOON).decide(found_in(flow)).value

    assert fired.run is not None
    assert names(fired.run) == ["nightly"]


def test_a_retry_leaves_steps_to_their_run(flow: Flow) -> None:
    for name in ("run", "inner"):
        failed = evolve(named(flow, name), status=Status.FAILED, error="no", result=None)
        flow = with_task(flow, failed)
    retried = RetryTasks(task_id=flow.root.id, now=NOON).decide(found_in(flow)).value

    assert retried == (named(flow, "run").id,)


def test_an_archive_keeps_steps_however_they_ended(flow: Flow) -> None:
    flow = with_task(flow, evolve(named(flow, "inner"), status=Status.FAILED, error="no", result=None))
    flow = with_task(flow, evolve(named(flow, "outer"), status=Status.CANCELLED, error="no", result=None))
    archive = ArchiveTasks(task_id=flow.root.id, new_id=numbered_ids("b"), now=NOON)
    made = archive.decide(found_in(flow)).value

    assert {task.origin_type for task in made} == {Origin.ARCHIVE}
    assert named(made, "inner").status is Status.FAILED
    assert named(made, "outer").status is Status.CANCELLED
    assert [problem for task in made for problem in consistency_problems(task)] == []


def test_a_run_that_has_not_ended_is_submitted_without_steps(flow: Flow) -> None:
    open_run = evolve(named(flow, "run"), status=Status.PENDING, result=None, progress=0.0)
    flow = with_task(flow, evolve(open_run, started_at=None, completed_at=None))

    submitted = SubmitFlow(flow, NOON).decide(found_in(flow)).value

    assert names(submitted) == ["root", "plain", "run"]
    assert not named(submitted, "run").has_children


def test_a_run_that_has_ended_is_submitted_as_it_is(flow: Flow) -> None:
    assert with_ended_steps(without_open_runs(flow)) is flow


def test_an_open_step_below_a_run_that_has_ended_is_submitted_as_ended(flow: Flow) -> None:
    lost = evolve(named(flow, "outer"), status=Status.IN_PROGRESS, result=None, completed_at=None)
    lost = with_digests(lost, Digests("asked"))

    submitted = SubmitFlow(with_task(flow, lost), NOON).decide(found_in(flow)).value

    outer = named(submitted, "outer")
    assert (outer.status, outer.error) == (Status.CANCELLED, ENDED_WITH_RUN)
    assert digests_of(outer) is None, "nothing finds it: it has no outcome"
    assert list(open_step_problems(submitted)) == []
    assert [problem for task in submitted for problem in consistency_problems(task)] == []
