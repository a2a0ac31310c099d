"""Group commit: while one commit is running, further writes are collected for the next commit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from weft.store.errors import StoreError

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
