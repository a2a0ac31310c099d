"""A real store, some of whose calls fail or wait when a test says so."""

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from weft.store.protocol import Ending, Outlook, TaskStore, Wanted


class FaultyStore:
    """Passes every call on to a store, except those that are to fail."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._errors: dict[str, list[Exception]] = {}
        self._holds_claims = False
        self.has_claimed = asyncio.Event()
        self.may_answer = asyncio.Event()

    @property
    def as_store(self) -> TaskStore:
        return cast(TaskStore, self)

    def fail(self, method: str, *errors: Exception) -> None:
        """Let the next calls of a method raise these errors, one each."""
        self._errors.setdefault(method, []).extend(errors)

    def left(self, method: str) -> int:
        """How many calls of a method are still to fail."""
        return len(self._errors.get(method, ()))

    def hold_claims(self) -> None:
        """Hold answers back that bring claimed tasks: `has_claimed` tells of one, `may_answer` ends it."""
        self._holds_claims = True

    async def advance(self, endings: Sequence[Ending], wanted: Wanted) -> tuple[Sequence[Any], Outlook]:
        held, outlook = await self.__getattr__("advance")(endings, wanted)
        if self._holds_claims and outlook.claimed:
            self.has_claimed.set()
            await self.may_answer.wait()
        return held, outlook

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._store, method)

        async def call(*arguments: Any, **named: Any) -> Any:
            if self._errors.get(method):
                raise self._errors[method].pop(0)
            return await real(*arguments, **named)

        return call
