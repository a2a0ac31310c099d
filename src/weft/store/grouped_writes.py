"""The writing half of a store: every write becomes a request that is committed with others."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TypeVar

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.errors import StoreError
from weft.store.group_commit import Done, GroupCommit
from weft.store.protocol import Claim, Ending, Outlook, Owner, Rest, Wanted
from weft.store.requests import (
    AddWorker,
    EndFlow,
    GiveBack,
    Operate,
    Recover,
    RemoveWorker,
    RenewWorker,
    Report,
    Request,
    RestartDelays,
    RunFlow,
    Start,
)
from weft.store.steps import Run, StepChange, WriteSteps
from weft.store.templates import (
    AddedTemplate,
    AddTemplates,
    KeepParams,
    NewTemplate,
    RegisteredTemplate,
    RemoveTemplate,
)
from weft.tasks.changes import Operation
from weft.tasks.record import JsonObject
from weft.tasks.states import Outcome

T = TypeVar("T")


def require_worker_name(worker: str) -> None:
    """Raise unless every store can hold the worker's name."""
    if "\x00" in worker or not worker.isprintable():
        raise StoreError(f"{worker!r} cannot be the name of a worker")


class GroupedWrites:
    """The writes of the `TaskStore` protocol, over one `_commit` that a dialect provides."""

    def __init__(self) -> None:
        self._group = GroupCommit(self._commit)

    async def operate(self, operation: Operation[T], *, owner: Owner) -> T:
        # Ctrl-C during the work before: then nothing is begun that would be done after "interrupted".
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        value: T = await self._group.write(Operate(operation, owner))
        return value

    async def start(self, task_id: TaskId, *, worker: str, now: datetime, owner: Owner) -> Claim:
        require_worker_name(worker)
        if now.utcoffset() is None:
            raise StoreError(f"{now.isoformat()} has no offset from UTC")
        claim: Claim = await self._group.write(Start(task_id, worker, now, owner))
        return claim

    async def advance(
        self, endings: Sequence[Ending | Rest], wanted: Wanted
    ) -> tuple[Sequence[bool | WeftError], Outlook | WeftError]:
        *held, outlook = await self._group.write_together([*endings, wanted])
        return held, outlook

    async def report(self, claim: Claim, *, progress: float, now: datetime) -> bool:
        return bool(await self._group.write(Report(claim, progress, now)))

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        return bool(await self._group.write(Ending(claim, outcome)))

    async def give_back(self, claim: Claim, *, now: datetime) -> bool:
        return bool(await self._group.write(GiveBack(claim, now)))

    async def write_steps(self, run: Run, changes: Sequence[StepChange]) -> frozenset[TaskId] | None:
        refused: frozenset[TaskId] | None = await self._group.write(WriteSteps(run, tuple(changes)))
        return refused

    async def run_flow(self, root_id: TaskId, *, owner: Owner) -> None:
        await self._group.write(RunFlow(root_id, True, owner))

    async def stop_flow(self, root_id: TaskId, *, owner: Owner) -> None:
        await self._group.write(RunFlow(root_id, False, owner))

    async def end_flow(self, root_id: TaskId) -> bool:
        return bool(await self._group.write(EndFlow(root_id)))

    async def add_worker(
        self, worker: str, *, lease_seconds: float, methods: Collection[str] | None = None
    ) -> None:
        require_worker_name(worker)
        known = None if methods is None else tuple(sorted(methods))
        await self._group.write(AddWorker(worker, lease_seconds, known))

    async def renew_worker(self, worker: str, *, lease_seconds: float) -> frozenset[Claim] | None:
        held: frozenset[Claim] | None = await self._group.write(RenewWorker(worker, lease_seconds))
        return held

    async def remove_worker(self, worker: str, *, now: datetime) -> int:
        return int(await self._group.write(RemoveWorker(worker, now)))

    async def recover(self, *, dead: Collection[str] = (), expired_at: datetime | None = None) -> int:
        return int(await self._group.write(Recover(dead, expired_at)))

    async def restart_delays(self, *, lease_seconds: float | None = None) -> Sequence[TaskId]:
        restarted: Sequence[TaskId] = await self._group.write(RestartDelays(lease_seconds))
        return restarted

    async def add_templates(
        self, templates: Sequence[NewTemplate], *, user_id: str | None, now: datetime
    ) -> Sequence[AddedTemplate]:
        added: Sequence[AddedTemplate] = await self._group.write(AddTemplates(tuple(templates), user_id, now))
        return added

    async def remove_template(
        self, name: str, *, user_id: str | None, now: datetime
    ) -> RegisteredTemplate | None:
        removed: RegisteredTemplate | None = await self._group.write(RemoveTemplate(name, user_id, now))
        return removed

    async def keep_params(self, run: Run, params: JsonObject, *, now: datetime) -> bool:
        return bool(await self._group.write(KeepParams(run, params, now)))

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests together, and call `done` with what became of each."""
        raise NotImplementedError
