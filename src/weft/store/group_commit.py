"""Group commit: while one commit is under way, further writes gather into the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from weft.store.errors import StoreError

MAX_GROUP = 2000
"""Most writes in one commit, so that no caller waits long behind others."""

Commit = Callable[[Sequence[Any]], Awaitable[Sequence[Any]]]
"""Writes requests in one transaction; gives back a value or an exception for each, in order."""


class GroupCommit:
    """Hands the writes of many callers to one committer, a group at a time."""

    def __init__(self, commit: Commit) -> None:
        self._commit = commit
        self._waiting: list[tuple[Any, asyncio.Future[Any]]] = []
        self._worker: asyncio.Task[None] | None = None
        self._is_closed = False

    async def write(self, request: Any) -> Any:
        """The value of the request, once it is committed.

        A caller that is cancelled while waiting does not take its write back: it may be committed already.
        """
        if self._is_closed:
            raise StoreError("the store is closed")
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await future

    async def close(self) -> None:
        """Wait until everything accepted is written; accept nothing more."""
        self._is_closed = True
        if self._worker is not None:
            await asyncio.shield(self._worker)

    async def _work(self) -> None:
        try:
            while self._waiting:
                group = self._waiting[:MAX_GROUP]
                del self._waiting[:MAX_GROUP]
                await self._commit_group(group)
        finally:
            self._worker = None

    async def _commit_group(self, group: Sequence[tuple[Any, asyncio.Future[Any]]]) -> None:
        try:
            outcomes = await self._commit([request for request, _ in group])
        except Exception as error:
            outcomes = [error] * len(group)
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
