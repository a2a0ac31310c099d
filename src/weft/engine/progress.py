"""Progress of running attempts, written no oftener than people can see."""

import asyncio

from weft.clock import Clock
from weft.engine.patience import Patience
from weft.executors.protocol import Report
from weft.store.protocol import Claim, TaskStore

MIN_SECONDS_BETWEEN = 0.2
"""An executor may report after every line of a file; the store needs a few reports a second."""


class ProgressReports:
    """Makes the `report` functions that executors get."""

    def __init__(self, store: TaskStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def of(self, claim: Claim) -> Report:
        """The report function of one attempt."""
        last = float("-inf")

        async def report(progress: float) -> None:
            nonlocal last
            now = asyncio.get_running_loop().time()
            if now - last >= MIN_SECONDS_BETWEEN:
                last = now
                with Patience(f"progress of task {claim.task_id}"):  # advice: no task fails for want of it
                    await self._store.report(claim, progress=progress, now=self._clock.now())

        return report
