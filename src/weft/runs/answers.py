"""What other runs have answered, for a run that asks the same."""

import asyncio

from weft.ids import TaskId
from weft.runs.forks import Fork
from weft.runs.journal import Journal
from weft.store.protocol import TaskStore
from weft.tasks.record import Task


class EarlierAnswers:
    """Those of the same owner that a run may have, and has not had yet.

    Each is given once in a run: one that asks the same question three times wants three answers, and when it
    is run again, those three.
    """

    def __init__(self, store: TaskStore, journal: Journal, fork: Fork | None, *, is_reusing: bool) -> None:
        self._store = store
        self._journal = journal
        self._fork = fork
        self._is_reusing = is_reusing
        self._given = journal.past.sources
        """What steps of this run that are known already are links of."""
        self._left: dict[str, list[TaskId]] = {}
        """By digest, the last first. Kept also when there are none: a loop that asks the same looks once."""

        self._looking: dict[str, asyncio.Event] = {}

    async def find(self, reuse_hash: str | None) -> Task | None:
        """The next step that has answered the same; None: there is none, none is left, or none is wanted."""
        if reuse_hash is None or not self._is_reusing:
            return None
        while reuse_hash not in self._left:
            looking = self._looking.get(reuse_hash)
            if looking is None:
                await self._look(reuse_hash)
            else:
                await looking.wait()
        left = self._left[reuse_hash]
        while left:
            step = await self._store.find_step(left.pop())
            if step is not None:
                return step
        return None

    async def _look(self, reuse_hash: str) -> None:
        """Look once: who asks the same meanwhile waits, so that the first to ask gets the first answer."""
        looking = self._looking[reuse_hash] = asyncio.Event()
        try:
            found = await self._store.reusable_steps(
                reuse_hash, user_id=self._journal.user_id, besides=self._journal.tree_id
            )
            self._left[reuse_hash] = [one for one in reversed(found) if self._may_give(one)]
        finally:
            del self._looking[reuse_hash]
            looking.set()

    def _may_give(self, task_id: TaskId) -> bool:
        """Not what was given before, nor what the run has done that this one was forked from: what counts of
        that is found by its key."""
        return task_id not in self._given and not (
            self._fork is not None and self._fork.is_of_old_run(task_id)
        )
