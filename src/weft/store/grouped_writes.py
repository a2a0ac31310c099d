"""The writing half of a store: every write becomes a request that is committed with others."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeVar

from weft.ids import TaskId
from weft.store.group_commit import GroupCommit
from weft.store.protocol import Claim, Owner
from weft.store.requests import Finish, Operate, Report, Request, Start
from weft.tasks.changes import Operation
from weft.tasks.states import Outcome

T = TypeVar("T")


class GroupedWrites:
    """The writes of the `TaskStore` protocol, over one `_commit` that a dialect provides."""

    def __init__(self) -> None:
        self._group = GroupCommit(self._commit)

    async def operate(self, operation: Operation[T], *, owner: Owner) -> T:
        value: T = await self._group.write(Operate(operation, owner))
        return value

    async def start(
        self, task_id: TaskId, *, worker: str, now: datetime, lease_until: datetime, owner: Owner
    ) -> Claim:
        claim: Claim = await self._group.write(Start(task_id, worker, now, lease_until, owner))
        return claim

    async def report(self, claim: Claim, *, progress: float, now: datetime) -> bool:
        return bool(await self._group.write(Report(claim, progress, now)))

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        return bool(await self._group.write(Finish(claim, outcome)))

    async def _commit(self, requests: Sequence[Request]) -> Sequence[Any]:
        """The value or error of each request, all committed together; raises when nothing was."""
        raise NotImplementedError
