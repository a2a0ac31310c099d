"""Group commit: while one commit is under way, further writes gather into the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from weft.store.errors import StoreError

MAX_GROUP = 2000
"""Most writes in one commit, so that no caller waits long behind others."""

Commit = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]
"""Writes requests in one transaction; gives back a value or an exception for each, in order."""


class _Batch(Struct, frozen=True):
    """Requests of one caller that belong in one transaction."""

    requests: Sequence[Any]
    answer: asyncio.Future[Any]


class GroupCommit:
    """Hands the writes of many callers to one committer, a group at a time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[_Batch] = []
        self._worker: asyncio.Task[None] | None = None
        self._is_closed = False

    async def write(self, request: Any) -> Any:
        """The value of the request, once it is committed; raises its error.

        A caller that is cancelled while waiting does not take its write back: it may be committed already.
        """
        (outcome,) = await self._accept([request])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def write_together(self, requests: Sequence[Any]) -> Sequence[Any]:
        """The value or error of each request, all committed in one transaction."""
        return await self._accept(requests)

    async def close(self) -> None:
        """Wait until everything accepted is written; accept nothing more."""
        self._is_closed = True
        if self._worker is not None:
            await asyncio.shield(self._worker)

    def _accept(self, requests: Sequence[Any]) -> asyncio.Future[Sequence[Any]]:
        if self._is_closed:
            raise StoreError("the store is closed")
        answer: asyncio.Future[Sequence[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Batch(requests, answer))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._commit_group(self._next_group())
        finally:
            self._worker = None

    def _next_group(self) -> list[_Batch]:
        """The batches of the next commit: at least one, then as many as fit."""
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

    async def _commit_group(self, group: Sequence[_Batch]) -> None:
        requests = [request for batch in group for request in batch.requests]
        try:
            outcomes = await self._commit(requests)
        except Exception as error:
            for batch in group:
                if not batch.answer.done():
                    batch.answer.set_exception(error)
            return
        first = 0
        for batch in group:
            if not batch.answer.done():
                batch.answer.set_result(outcomes[first : first + len(batch.requests)])
            first += len(batch.requests)
