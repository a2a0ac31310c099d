"""Waiting for what runs by itself, until a deadline or a cancellation; and ending it so that nothing is left.

An effect is a task of its own and is cancelled once, however often its evaluation is: a second cancellation
would cut its clean-up short. The clean-up is waited for, for a while.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from weft.evaluator.budget import Scope

T = TypeVar("T")

CLEAN_UP_SECONDS = 5.0
"""How long an effect may take to end once it is cancelled: by then a script had its grace time and was
killed. What takes longer is left to itself."""

log = logging.getLogger(__name__)


class _Effect:
    """An effect under way."""

    __slots__ = ("evaluations",)

    def __init__(self) -> None:
        self.evaluations = 0
        """How many evaluations run inside it: these end by themselves, when what they wait for has ended."""


_EFFECT: ContextVar[_Effect | None] = ContextVar("effect", default=None)


@contextmanager
def evaluating() -> Iterator[None]:
    """Say to the effect around, if there is one, that it evaluates something."""
    effect = _EFFECT.get()
    if effect is None:
        yield
        return
    effect.evaluations += 1
    try:
        yield
    finally:
        effect.evaluations -= 1


async def perform(awaitable: Awaitable[T], scope: Scope, now: Callable[[], float]) -> T:
    """The result of an effect; BudgetExceeded when the deadline of the scope passes."""
    effect = _Effect()
    token = _EFFECT.set(effect)
    task = asyncio.ensure_future(awaitable)  # has the effect in its context
    _EFFECT.reset(token)
    try:
        if scope.has_waits:
            await _wait_till_due(task, scope, now)
        else:
            await asyncio.wait((task,), timeout=_seconds_left(scope, now))
    except asyncio.CancelledError:
        await _stop_effect(task, effect)
        raise
    if task.done():
        return task.result()
    await _stop_effect(task, effect)
    raise _late(scope, now)


async def _wait_till_due(task: asyncio.Future[Any], scope: Scope, now: Callable[[], float]) -> None:
    """Wait until it is done, or till a deadline that comes nearer when waits of the past are counted."""
    while not task.done() and _seconds_left(scope, now) != 0:
        moved = asyncio.ensure_future(scope.moved().wait())
        try:
            await asyncio.wait(
                (task, moved), timeout=_seconds_left(scope, now), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            moved.cancel()


async def together(under_way: Sequence[asyncio.Task[Any]], scope: Scope, now: Callable[[], float]) -> None:
    """Wait for all; raises the first error, of several at once the one that stands first."""
    ended, others = await asyncio.wait(
        under_way, timeout=_seconds_left(scope, now), return_when=asyncio.FIRST_EXCEPTION
    )
    for task in under_way:
        if task in ended:
            task.result()
    if others:
        raise _late(scope, now)


async def stop(under_way: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel all, once, and wait until they have ended; a cancellation meanwhile is raised afterwards."""
    await _stop(under_way, lambda: True)


async def _stop_effect(task: asyncio.Future[Any], effect: _Effect) -> None:
    try:
        await _stop((task,), lambda: effect.evaluations > 0)
    finally:
        if not task.done():
            task.add_done_callback(_seen)
            log.warning("an effect did not end %g s after it was cancelled: %r", CLEAN_UP_SECONDS, task)


async def _stop(under_way: Sequence[asyncio.Future[Any]], ends_by_itself: Callable[[], bool]) -> None:
    # All begin first: what never began would leave its branch, or a coroutine in it, unfinished.
    cancellation = await _pause(asyncio.sleep(0))
    for task in under_way:
        task.cancel()
    loop = asyncio.get_running_loop()
    end = loop.time() + CLEAN_UP_SECONDS
    while not all(task.done() for task in under_way):
        left = end - loop.time()
        if left <= 0:
            if not ends_by_itself():
                break
            left = CLEAN_UP_SECONDS
        pending = [task for task in under_way if not task.done()]
        cancellation = await _pause(asyncio.wait(pending, timeout=left)) or cancellation
    for task in under_way:
        if task.done():
            _seen(task)  # the error that stopped them is the one that is told
    if cancellation is not None:
        raise cancellation


async def _pause(awaitable: Awaitable[Any]) -> asyncio.CancelledError | None:
    """Wait; the cancellation if one came."""
    try:
        await awaitable
    except asyncio.CancelledError as cancellation:
        return cancellation
    return None


def _seen(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _seconds_left(scope: Scope, now: Callable[[], float]) -> float | None:
    return None if scope.deadline is None else max(0.0, scope.deadline - now())


def _late(scope: Scope, now: Callable[[], float]) -> Exception:
    """The error for a deadline that has passed."""
    return scope.late(max(now(), cast(float, scope.deadline)))
