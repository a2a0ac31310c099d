"""The journal of a run by itself."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.builders import a_task
from weft.clock import SystemClock
from weft.errors import TransientError
from weft.evaluator.effects import Composite, Step
from weft.ids import TaskId, new_task_id
from weft.runs.journal import Journal, missing_changes
from weft.runs.step_writer import StepWriter
from weft.store.models import Run, StepChange, StoredStep
from weft.store.protocol import TaskStore
from weft.tasks.record import Status, Task, evolve


class GatedStore:
    """A store whose writes wait until the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.written: list[StepChange] = []

    async def steps_of(self, task_id: TaskId) -> Sequence[StoredStep]:
        return []

    async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId]:
        await self.gate.wait()
        self.written.extend(changes)
        return frozenset()


async def test_a_run_does_not_end_before_what_is_being_stored_is_stored() -> None:
    store = GatedStore()
    journal = await Journal.open(cast(TaskStore, store), a_task(), 1, clock=SystemClock(), new_id=new_task_id)
    opened = journal.begin(Step("1", Composite(kind="call", name="both")), "hash")
    journal.complete_soon(opened, {})
    showing = asyncio.ensure_future(journal.show())  # as the journal does by itself after a moment
    await asyncio.sleep(0)
    ending = asyncio.ensure_future(journal.end())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not ending.done()

    store.gate.set()
    await asyncio.gather(showing, ending)

    assert [change.task.status for change in store.written] == [Status.COMPLETED]


def _step(status: Status, task_id: str = "11111111-1111-4111-8111-111111111111", **mark: Any) -> Task:
    result = {"content": "paid for"} if status is Status.COMPLETED else None
    params = {"step": {"key": "0", "kind": "task", **mark}}
    return evolve(a_task(), id=TaskId(task_id), parent_id=ROOT, status=status, result=result, params=params)


ROOT = TaskId("00000000-0000-4000-8000-000000000000")
OTHER = "22222222-2222-4222-8222-222222222222"


@pytest.mark.parametrize(
    ("stored", "task", "is_written"),
    [
        (_step(Status.IN_PROGRESS), _step(Status.COMPLETED), True),
        (_step(Status.IN_PROGRESS, OTHER), _step(Status.COMPLETED), False),
        (_step(Status.FAILED, failure={"reason": "x"}), _step(Status.COMPLETED), False),
        (
            _step(Status.FAILED, failure={"reason": "x"}, ended_run={"reason": "x"}),
            _step(Status.COMPLETED),
            True,
        ),
        (
            _step(Status.FAILED, failure={"reason": "x"}, ended_run={"reason": "x"}),
            _step(Status.FAILED, failure={"reason": "x"}),
            False,
        ),
        (_step(Status.CANCELLED), _step(Status.COMPLETED), False),
        (_step(Status.CANCELLED, OTHER, called_off=True), _step(Status.COMPLETED), True),
    ],
    ids=[
        "open",
        "open in another record",
        "failed",
        "ended the run",
        "ended the run, as the older failure would",
        "cancelled",
        "replaced",
    ],
)
def test_a_change_is_handed_over_unless_the_store_has_an_outcome(
    stored: Task, task: Task, is_written: bool
) -> None:
    missing = missing_changes(
        [StepChange(task, "0", "hash", is_new=False)], [StoredStep(stored, "0", "hash")], ROOT
    )

    assert [change.task for change in missing] == [task] * is_written
    assert [change.is_new for change in missing] == [stored.id != task.id] * is_written
    # A step that had ended starts again in the log before it ends.
    assert [change.is_continued for change in missing] == [stored.status is Status.IN_PROGRESS] * is_written


def test_a_mark_is_handed_over_only_for_the_outcome_that_it_is_for() -> None:
    failed = _step(Status.FAILED, failure={"reason": "x"}, ended_run={"reason": "x"})
    mark = StepChange(failed, "0", "", is_new=False, is_params_only=True)
    performed_again = StoredStep(_step(Status.COMPLETED), "0", "hash")
    as_it_was = StoredStep(_step(Status.FAILED, failure={"reason": "x"}), "0", "hash")

    assert missing_changes([mark], [performed_again], ROOT) == []
    assert missing_changes([mark], [as_it_was], ROOT) == [mark]


def test_a_late_response_moves_below_the_record_that_another_process_made_of_its_composite() -> None:
    composite, theirs = _step(Status.IN_PROGRESS), _step(Status.IN_PROGRESS, OTHER)
    child = evolve(_step(Status.COMPLETED, "33333333-3333-4333-8333-333333333333"), parent_id=composite.id)
    changes = [StepChange(composite, "0", "hash"), StepChange(child, "0/1", "hash")]

    missing = missing_changes(changes, [StoredStep(theirs, "0", "hash")], ROOT)

    assert [(change.key, change.task.parent_id, change.is_new) for change in missing] == [
        ("0/1", OTHER, True)
    ]


async def test_a_stopped_writer_says_when_its_last_write_has_succeeded() -> None:
    store, is_idle = GatedStore(), asyncio.Event()
    writer = StepWriter(cast(TaskStore, store), Run(ROOT, 1, ROOT, None))
    writing = asyncio.ensure_future(writer.write([StepChange(_step(Status.COMPLETED), "0", "hash")]))
    await asyncio.sleep(0)
    writer.stop()
    writer.on_idle = is_idle.set
    assert writer.has_unwritten

    store.gate.set()
    await asyncio.wait([writing])
    await is_idle.wait()

    assert not writer.has_unwritten


async def test_changes_that_come_after_a_stop_are_handed_over_after_those_that_came_before() -> None:
    class Away(GatedStore):
        async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId]:
            await self.gate.wait()
            raise TransientError("away")

    store = Away()
    writer = StepWriter(cast(TaskStore, store), Run(ROOT, 1, ROOT, None))
    begun = StepChange(_step(Status.IN_PROGRESS), "0", "hash")
    ended = StepChange(_step(Status.COMPLETED), "0", "hash", is_new=False)
    writing = asyncio.ensure_future(writer.write([begun]))
    await asyncio.sleep(0)
    writer.stop()
    late = asyncio.ensure_future(writer.write([ended]))
    await asyncio.wait([writing, late])
    store.gate.set()

    assert await writer.drain() == (begun, ended)
