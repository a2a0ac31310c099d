"""A real store, some of whose calls fail or wait when a test says so."""

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from weft.errors import WeftError
from weft.store.protocol import AttemptResult, ClaimRequest, ClaimResult, TaskStore


class FaultyStore:
    """Passes every call on to a store, except those that are to fail."""

    def __init__(self, store: TaskStore) -> None:
        self._store = store
        self._errors: dict[str, list[Exception]] = {}
        self._claim_errors: list[WeftError] = []
        self._holds_claims = False
        self.has_claimed = asyncio.Event()
        self.may_answer = asyncio.Event()

    @property
    def as_store(self) -> TaskStore:
        return cast(TaskStore, self)

    def fail(self, method: str, *errors: Exception) -> None:
        """Let the next calls of a method raise these errors, one each."""
        self._errors.setdefault(method, []).extend(errors)

    def mend(self, method: str) -> None:
        """Let calls of a method fail no more."""
        self._errors.pop(method, None)

    def left(self, method: str) -> int:
        """How many calls of a method are still to fail."""
        return len(self._errors.get(method, ()))

    def fail_claims(self, *errors: WeftError) -> None:
        """Let the next calls that end an attempt do so, and then fail to claim."""
        self._claim_errors.extend(errors)

    def hold_claims(self) -> None:
        """Hold answers back that bring claimed tasks: `has_claimed` tells of one, `may_answer` ends it."""
        self._holds_claims = True

    async def advance(
        self, endings: Sequence[AttemptResult], wanted: ClaimRequest
    ) -> tuple[Sequence[Any], Any]:
        if endings and self._claim_errors:
            held, _ = await self._store.advance(endings, msgspec.structs.replace(wanted, slots=0))
            return held, self._claim_errors.pop(0)
        held, outlook = await self.__getattr__("advance")(endings, wanted)
        if self._holds_claims and isinstance(outlook, ClaimResult) and outlook.claimed:
            self.has_claimed.set()
            await self.may_answer.wait()
        return held, outlook

    def __getattr__(self, method: str) -> Any:
        real = getattr(self._store, method)
        if not inspect.iscoroutinefunction(real):
            return real

        async def call(*arguments: Any, **named: Any) -> Any:
            if self._errors.get(method):
                raise self._errors[method].pop(0)
            return await real(*arguments, **named)

        return call
