"""Group commit: while one commit is running, further writes are collected for the next commit."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from weft.errors import WeftError
from weft.ids import TaskId
from weft.store.errors import StoreError
from weft.store.models import (
    AddedTemplate,
    AddTemplates,
    NewTemplate,
    RegisteredTemplate,
    RemoveTemplate,
    Run,
    StepChange,
    UpdateParams,
    WriteSteps,
)
from weft.store.protocol import AttemptResult, Claim, ClaimRequest, ClaimResult, Owner, Suspension
from weft.store.requests import (
    AddWorker,
    EndFlow,
    Operate,
    Recover,
    Release,
    RemoveWorker,
    RenewWorker,
    Report,
    Request,
    RestartDelays,
    RunFlow,
    Start,
)
from weft.tasks.decisions import Operation
from weft.tasks.record import JsonObject
from weft.tasks.states import Outcome

MAX_GROUP = 2000
"""Maximum number of writes in one commit, so that no caller waits long behind others."""

Done = Callable[[Sequence[Any] | Exception], None]
"""Receives the value or exception of each request, in order; or one exception if nothing was written."""

Commit = Callable[[Sequence[Any], Done], None]
"""Starts to write requests in one transaction, and calls `done` in the event loop when it has ended.

A callback and not a coroutine, because a chain of tasks is only as fast as its consecutive commits, and each
iteration of the event loop between them costs as much as a statement.
"""


class _Batch(Struct, frozen=True):
    """Requests of one caller that are committed in one transaction."""

    requests: Sequence[Any]
    result: asyncio.Future[Any]


class GroupCommit:
    """Commits the writes of many callers in groups, one transaction at a time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[_Batch] = []
        self._is_busy = False
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def write(self, request: Any) -> Any:
        """Return the value of the request once it is committed, or raise its error.

        Cancelling a waiting caller does not undo its write: it may already be committed.
        """
        (outcome,) = await self._accept([request], starts_immediately=False)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def write_together(self, requests: Sequence[Any]) -> Sequence[Any]:
        """Return the value or error of each request, all committed in one transaction.

        The commit starts immediately, because the caller has already collected its writes. A single write
        waits for one iteration of the event loop, so that others can join it.
        """
        return await self._accept(requests, starts_immediately=True)

    async def close(self) -> None:
        """Wait until all accepted requests are written; reject new ones."""
        self._is_closed = True
        await self._idle.wait()

    def _accept(self, requests: Sequence[Any], *, starts_immediately: bool) -> asyncio.Future[Sequence[Any]]:
        if self._is_closed:
            raise StoreError("the store is closed")
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Sequence[Any]] = loop.create_future()
        self._waiting.append(_Batch(requests, result))
        if not self._is_busy:
            self._is_busy = True
            self._idle.clear()
            if starts_immediately:
                self._start_commit()
            else:
                loop.call_soon(self._start_commit)
        return result

    def _start_commit(self) -> None:
        group = self._next_group()
        if not group:
            self._become_idle()
            return
        requests = (
            group[0].requests
            if len(group) == 1
            else [request for batch in group for request in batch.requests]
        )
        is_done = False

        def done(outcomes: Sequence[Any] | Exception) -> None:
            nonlocal is_done
            is_done = True
            self._finish_commit(group, outcomes)

        try:
            self._commit(requests, done)
        except BaseException:
            # A commit in the event loop itself was interrupted, for instance by KeyboardInterrupt. The error
            # is raised to the caller of the loop; if the loop is run again, nobody must wait forever.
            if not is_done:
                self._finish_commit(group, StoreError("the write was interrupted"))
                for batch in group:
                    # Mark the exception as retrieved: perhaps no caller awaits the result any more.
                    _ = batch.result.cancelled() or batch.result.exception()
            raise

    def _next_group(self) -> list[_Batch]:
        """Remove and return the batches of the next commit: as many as fit, but at least one if any waits."""
        # A batch that was cancelled before its write began is dropped.
        self._waiting = [batch for batch in self._waiting if not batch.result.cancelled()]
        size = 0
        for count, batch in enumerate(self._waiting):
            size += len(batch.requests)
            if size > MAX_GROUP and count:
                break
        else:
            count = len(self._waiting)
        group = self._waiting[:count]
        del self._waiting[:count]
        return group

    def _finish_commit(self, group: Sequence[_Batch], outcomes: Sequence[Any] | Exception) -> None:
        first = 0
        for batch in group:
            if not batch.result.done():
                if isinstance(outcomes, Exception):
                    batch.result.set_exception(outcomes)
                else:
                    batch.result.set_result(outcomes[first : first + len(batch.requests)])
            first += len(batch.requests)
        # Results are set before the next commit starts, so that callers continue in the order of commits: a
        # caller that has started a flow must not overtake an earlier one that learns that the flow has ended.
        # Callers continue in the next iteration of the event loop, so the next commit does not wait for them.
        if self._waiting:
            self._start_commit()
        else:
            self._become_idle()

    def _become_idle(self) -> None:
        self._is_busy = False
        self._idle.set()


T = TypeVar("T")


def require_worker_name(worker: str) -> None:
    """Raise StoreError if the worker's name has characters that some store rejects."""
    if not worker.isprintable():
        raise StoreError(f"the worker name {worker!r} has characters that are not printable")


class GroupedWrites:
    """Implements the writes of the `TaskStore` protocol by group commit; subclasses implement `_commit`."""

    def __init__(self) -> None:
        self._group = GroupCommit(self._commit)

    async def operate(self, operation: Operation[T], *, owner: Owner) -> T:
        # After Ctrl-C, start no operation: it could be committed after "interrupted" was printed.
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        value: T = await self._group.write(Operate(operation, owner))
        return value

    async def start(self, task_id: TaskId, *, worker: str, now: datetime, owner: Owner) -> Claim:
        require_worker_name(worker)
        if now.utcoffset() is None:
            raise StoreError(f"the time {now.isoformat()} has no UTC offset")
        claim: Claim = await self._group.write(Start(task_id, worker, now, owner))
        return claim

    async def advance(
        self, endings: Sequence[AttemptResult | Suspension], wanted: ClaimRequest
    ) -> tuple[Sequence[bool | WeftError], ClaimResult | WeftError]:
        *held, claimed = await self._group.write_together([*endings, wanted])
        return held, claimed

    async def report(self, claim: Claim, *, progress: float, now: datetime) -> bool:
        return bool(await self._group.write(Report(claim, progress, now)))

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        return bool(await self._group.write(AttemptResult(claim, outcome)))

    async def release(self, claim: Claim, *, now: datetime) -> bool:
        return bool(await self._group.write(Release(claim, now)))

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

    async def update_params(self, run: Run, params: JsonObject, *, now: datetime) -> bool:
        return bool(await self._group.write(UpdateParams(run, params, now)))

    def _commit(self, requests: Sequence[Request], done: Done) -> None:
        """Commit the requests together, and call `done` with the outcome of each."""
        raise NotImplementedError
