"""Answers that are known already."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Known(Generic[T]):
    """The answer to a request, which nobody need wait for: a replay of many steps takes no turns for them."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()  # what makes it a generator
        return self.value


def then(answer: Awaitable[T], act: Callable[[T], U]) -> Awaitable[U]:
    """What the act makes of an answer: at once if that is known."""
    if isinstance(answer, Known):
        return Known(act(answer.value))
    return _then(answer, act)


async def _then(answer: Awaitable[T], act: Callable[[T], U]) -> U:
    return act(await answer)
