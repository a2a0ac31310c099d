"""Helpers for asyncio: blocking calls in threads of their own, and fair queues."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


async def run_blocking(function: Callable[[], T], *, name: str = "weft-blocking") -> T:
    """The value of a function that blocks.

    Not asyncio's own pool: that has a handful of threads, which name look-ups share, and the interpreter
    waits for them at exit. When the caller is cancelled the thread goes on and its outcome is dropped.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(value)
        elif isinstance(error, Exception) and not isinstance(error, StopIteration):
            outcome.set_exception(error)
        else:
            # SystemExit and the like would end the event loop; StopIteration cannot be set on a future.
            outcome.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

    def run() -> None:
        value, failure = None, None
        try:
            value = context.run(function)
        except BaseException as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:
            return  # The loop is closed: nobody waits any more.

    # A daemon: a function that never returns must not keep the process from ending.
    threading.Thread(target=run, name=name, daemon=True).start()
    return await outcome


def abandon(task: asyncio.Task[Any]) -> None:
    """Leave a task that does not heed its cancellation to itself.

    Nothing waits for it any more: `asyncio.run`, too, would wait for ever for a task that it knows of.
    """
    asyncio._unregister_task(task)  # noqa: SLF001 - documented, for whoever makes tasks of their own
    task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - we have logged it
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


_Place = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class TurnQueue:
    """`async with line:` has its turn when all who came before have left. Used by many loops and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Place] = deque()
        self._is_taken = False

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        place: _Place = (loop, loop.create_future())
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            self._waiting.append(place)
        try:
            await place[1]
        except asyncio.CancelledError:
            with self._lock:
                is_in_line = place in self._waiting
                if is_in_line:
                    self._waiting.remove(place)
            if not is_in_line:  # the turn had come already
                self._hand_on()
            raise

    async def __aexit__(self, *problem: object) -> None:
        self._hand_on()

    def _hand_on(self) -> None:
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(_begin, turn)
                except RuntimeError:  # that loop has been closed: nobody waits there any more
                    continue
                return
            self._is_taken = False


def _begin(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)


class WaitQueue:
    """The first in the line looks again when something has ended; the others stand behind it.

    So a thousand that wait cost no more than one. Of one event loop: that of the evaluation.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held by who stands first."""
        self._next: asyncio.Future[None] | None = None

    async def moved(self) -> None:
        """Wait until something has ended; for who stands first."""
        self._next = asyncio.get_running_loop().create_future()
        await self._next

    def move(self) -> None:
        """Say that something has ended."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
