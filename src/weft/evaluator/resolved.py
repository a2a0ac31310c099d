"""Already resolved awaitables, and mapping over awaitables."""

import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from weft.evaluator.errors import TaskFailed

T = TypeVar("T")
U = TypeVar("U")


class Resolved(Generic[T]):
    """A known result that can be awaited; a replay of many steps needs no turn of the event loop for it."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()  # makes this method a generator
        return self.value


class _Mapped(Generic[T, U]):
    """An awaitable with a function that is applied to its result."""

    __slots__ = ("_rescue", "_transform", "answer")

    def __init__(
        self, answer: Awaitable[T], transform: Callable[[T], U], rescue: Callable[[TaskFailed], U] | None
    ) -> None:
        self.answer = answer
        self._transform = transform
        self._rescue = rescue

    def __await__(self) -> Generator[Any, None, U]:
        try:
            found = yield from self.answer.__await__()
        except TaskFailed as error:
            if self._rescue is None:
                raise
            return self._rescue(error)
        return self._transform(found)


def then(
    answer: Awaitable[T], transform: Callable[[T], U], *, rescue: Callable[[TaskFailed], U] | None = None
) -> Awaitable[U]:
    """Apply a function to a result, at once if it is known; `rescue` is applied to a failure."""
    return (
        Resolved(transform(answer.value))
        if isinstance(answer, Resolved)
        else _Mapped(answer, transform, rescue)
    )


def discard(answer: Awaitable[Any]) -> bool:
    """Close an awaitable that nobody has started to wait for; return False if it was started."""
    while isinstance(answer, _Mapped):
        answer = answer.answer
    if not inspect.iscoroutine(answer) or inspect.getcoroutinestate(answer) != inspect.CORO_CREATED:
        return False
    answer.close()
    return True
