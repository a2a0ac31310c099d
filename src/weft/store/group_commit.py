"""Group commit: while one commit is running, further writes gather into the next."""

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
    KeepParams,
    NewTemplate,
    RegisteredTemplate,
    RemoveTemplate,
    Run,
    StepChange,
    WriteSteps,
)
from weft.store.protocol import AttemptResult, Claim, ClaimRequest, ClaimResult, Owner, Suspension
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
from weft.tasks.decisions import Operation
from weft.tasks.record import JsonObject
from weft.tasks.states import Outcome

MAX_GROUP = 2000
"""Most writes in one commit, so that no caller waits long behind others."""

Done = Callable[[Sequence[Any] | Exception], None]
"""Takes the value or exception of each request, in order; or one exception when nothing was written."""

Commit = Callable[[Sequence[Any], Done], None]
"""Begins to write requests in one transaction, and calls `done` in the event loop when that has ended.

A callback and not a coroutine: a chain of tasks is as fast as one commit after another, and each turn of the
event loop between them costs as much as a statement.
"""


class _Batch(Struct, frozen=True):
    """Requests of one caller that belong in one transaction."""

    requests: Sequence[Any]
    answer: asyncio.Future[Any]


class GroupCommit:
    """Hands the writes of many callers to one committer, a group at a time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[_Batch] = []
        self._is_busy = False
        self._is_closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    async def write(self, request: Any) -> Any:
        """The value of the request, once it is committed; raises its error.

        A caller that is cancelled while waiting does not take its write back: it may be committed already.
        """
        (outcome,) = await self._accept([request], begins_at_once=False)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def write_together(self, requests: Sequence[Any]) -> Sequence[Any]:
        """The value or error of each request, all committed in one transaction.

        Its caller has gathered what there is to write, so a group begins at once; a single write waits a turn
        of the event loop for others that come with it.
        """
        return await self._accept(requests, begins_at_once=True)

    async def close(self) -> None:
        """Wait until everything accepted is written; accept nothing more."""
        self._is_closed = True
        await self._idle.wait()

    def _accept(self, requests: Sequence[Any], *, begins_at_once: bool) -> asyncio.Future[Sequence[Any]]:
        if self._is_closed:
            raise StoreError("the store is closed")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sequence[Any]] = loop.create_future()
        self._waiting.append(_Batch(requests, answer))
        if not self._is_busy:
            self._is_busy = True
            self._idle.clear()
            if begins_at_once:
                self._begin()
            else:
                loop.call_soon(self._begin)
        return answer

    def _begin(self) -> None:
        group = self._next_group()
        if not group:
            self._rest()
            return
        requests = (
            group[0].requests if len(group) == 1 else [one for batch in group for one in batch.requests]
        )
        is_ended = False

        def done(outcomes: Sequence[Any] | Exception) -> None:
            nonlocal is_ended
            is_ended = True
            self._ended(group, outcomes)

        try:
            self._commit(requests, done)
        except BaseException:
            # Out of a commit in the event loop itself, such as KeyboardInterrupt. It goes on to who runs the
            # loop; others, if the loop is run again, must not wait for ever.
            if not is_ended:
                self._ended(group, StoreError("the write was interrupted"))
                for batch in group:
                    _ = batch.answer.cancelled() or batch.answer.exception()  # who asked may be gone
            raise

    def _next_group(self) -> list[_Batch]:
        """The batches of the next commit: as many as fit, and at least one if there is any."""
        # Who was cancelled before the write began is taken at its word.
        self._waiting = [batch for batch in self._waiting if not batch.answer.cancelled()]
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

    def _ended(self, group: Sequence[_Batch], outcomes: Sequence[Any] | Exception) -> None:
        first = 0
        for batch in group:
            if not batch.answer.done():
                if isinstance(outcomes, Exception):
                    batch.answer.set_exception(outcomes)
                else:
                    batch.answer.set_result(outcomes[first : first + len(batch.requests)])
            first += len(batch.requests)
        # The answers come first, so that callers go on in the order of the commits: who knows that a flow is
        # to be run must not overtake who learns that it was over before. They go on only after the next
        # commit has begun, though: the disk need not wait for them.
        if self._waiting:
            self._begin()
        else:
            self._rest()

    def _rest(self) -> None:
        self._is_busy = False
        self._idle.set()


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
        self, endings: Sequence[AttemptResult | Suspension], wanted: ClaimRequest
    ) -> tuple[Sequence[bool | WeftError], ClaimResult | WeftError]:
        *held, outlook = await self._group.write_together([*endings, wanted])
        return held, outlook

    async def report(self, claim: Claim, *, progress: float, now: datetime) -> bool:
        return bool(await self._group.write(Report(claim, progress, now)))

    async def finish(self, claim: Claim, outcome: Outcome) -> bool:
        return bool(await self._group.write(AttemptResult(claim, outcome)))

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
