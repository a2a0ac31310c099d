"""Answers that are known already, and what is made of answers."""

import inspect
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

from weft.evaluator.errors import TaskFailed

T = TypeVar("T")
U = TypeVar("U")


class Resolved(Generic[T]):
    """The answer to a request, which nobody need wait for: a replay of many steps takes no turns for them."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        yield from ()  # what makes it a generator
        return self.value


class _Later(Generic[T, U]):
    """What is made of an answer when it is there."""

    __slots__ = ("_act", "_rescue", "answer")

    def __init__(
        self, answer: Awaitable[T], act: Callable[[T], U], rescue: Callable[[TaskFailed], U] | None
    ) -> None:
        self.answer = answer
        self._act = act
        self._rescue = rescue

    def __await__(self) -> Generator[Any, None, U]:
        try:
            found = yield from self.answer.__await__()
        except TaskFailed as error:
            if self._rescue is None:
                raise
            return self._rescue(error)
        return self._act(found)


def then(
    answer: Awaitable[T], act: Callable[[T], U], *, rescue: Callable[[TaskFailed], U] | None = None
) -> Awaitable[U]:
    """What the act makes of an answer, at once if that is known; `rescue` makes it of a failure."""
    return Resolved(act(answer.value)) if isinstance(answer, Resolved) else _Later(answer, act, rescue)


def give_up(answer: Awaitable[Any]) -> bool:
    """Let go of an answer that nobody has begun to wait for; False: somebody has."""
    while isinstance(answer, _Later):
        answer = answer.answer
    if not inspect.iscoroutine(answer) or inspect.getcoroutinestate(answer) != inspect.CORO_CREATED:
        return False
    answer.close()
    return True
