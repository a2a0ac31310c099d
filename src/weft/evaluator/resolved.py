"""Already resolved awaitables, and mapping over awaitables."""

import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from weft.evaluator.errors import TaskFailed

T = TypeVar("T")
U = TypeVar("U")


class Resolved(Generic[T]):
    """A known result that can be awaited without an iteration of the event loop, which makes replay fast."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()  # makes this method a generator
        return self.value


class _Mapped(Generic[T, U]):
    """An awaitable with functions that are applied to its result and to its failure."""

    __slots__ = ("_rescue", "_transform", "awaitable")

    def __init__(
        self, awaitable: Awaitable[T], transform: Callable[[T], U], rescue: Callable[[TaskFailed], U] | None
    ) -> None:
        self.awaitable = awaitable
        self._transform = transform
        self._rescue = rescue

    def __await__(self) -> Generator[Any, None, U]:
        try:
            found = yield from self.awaitable.__await__()
        except TaskFailed as error:
            if self._rescue is None:
                raise
            return self._rescue(error)
        return self._transform(found)


def map_result(
    awaitable: Awaitable[T], transform: Callable[[T], U], *, rescue: Callable[[TaskFailed], U] | None = None
) -> Awaitable[U]:
    """Return an awaitable of the transformed result, resolved if the result is known.

    `rescue` replaces a failure with a result; without it, the failure is raised.
    """
    if isinstance(awaitable, Resolved):
        return Resolved(transform(awaitable.value))
    return _Mapped(awaitable, transform, rescue)


def discard(awaitable: Awaitable[Any]) -> bool:
    """Close a coroutine that nobody has started to await and return True; else return False."""
    while isinstance(awaitable, _Mapped):
        awaitable = awaitable.awaitable
    if not inspect.iscoroutine(awaitable) or inspect.getcoroutinestate(awaitable) != inspect.CORO_CREATED:
        return False
    awaitable.close()
    return True
