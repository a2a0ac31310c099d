"""Helpers for asyncio: blocking calls in their own threads, and fair queues."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


async def run_blocking(function: Callable[[], T], *, name: str = "weft-blocking") -> T:
    """Run a blocking function in a daemon thread of its own and return its result.

    asyncio's default pool is not used: it has few threads, shares them with DNS look-ups, and the
    interpreter waits for them at exit. If the caller is cancelled, the thread keeps running and its result
    is dropped.
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
            return  # The loop is closed, so nobody waits for the result.

    # A daemon thread, so that a function that never returns cannot keep the process alive.
    threading.Thread(target=run, name=name, daemon=True).start()
    return await outcome


def abandon(task: asyncio.Task[Any]) -> None:
    """Make asyncio forget a task that ignores its cancellation.

    Without this, `asyncio.run` would wait for the task forever.
    """
    asyncio._unregister_task(task)  # noqa: SLF001 - documented for custom task types
    task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - the caller logs it
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


_Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class TurnQueue:
    """A first-come, first-served lock (`async with queue:`) for many event loops and threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[_Waiter] = deque()
        self._is_taken = False

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        waiter: _Waiter = (loop, loop.create_future())
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return
            self._waiting.append(waiter)
        try:
            await waiter[1]
        except asyncio.CancelledError:
            with self._lock:
                is_queued = waiter in self._waiting
                if is_queued:
                    self._waiting.remove(waiter)
            if not is_queued:  # the lock was already handed to this waiter
                self._wake_next()
            raise

    async def __aexit__(self, *problem: object) -> None:
        self._wake_next()

    def _wake_next(self) -> None:
        with self._lock:
            while self._waiting:
                loop, future = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(_wake, future)
                except RuntimeError:  # that loop is closed, so nobody waits there
                    continue
                return
            self._is_taken = False


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class WaitQueue:
    """A queue in which only the first waiter checks its condition again when something has finished.

    The others wait for `lock`, so a thousand waiters cost no more than one. For use in one event loop.
    """

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        """Held by the first waiter."""
        self._next: asyncio.Future[None] | None = None

    async def wait_for_change(self) -> None:
        """Wait until `notify` is called. The caller must hold `lock`."""
        self._next = asyncio.get_running_loop().create_future()
        await self._next

    def notify(self) -> None:
        """Wake the first waiter, because something has finished."""
        if self._next is not None and not self._next.done():
            self._next.set_result(None)
