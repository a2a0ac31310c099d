"""The journal of a run by itself."""

import asyncio
from collections.abc import Sequence
from typing import cast

from tests.builders import a_task
from weft.clock import SystemClock
from weft.evaluator.effects import Composite, Step
from weft.ids import TaskId, new_task_id
from weft.runs.journal import Journal
from weft.store.models import Run, StepChange, StoredStep
from weft.store.protocol import TaskStore
from weft.tasks.record import Status


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
