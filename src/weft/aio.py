"""Helpers for asyncio: blocking calls in their own threads, and fair queues."""

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
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


async def call_function(function: Callable[..., Any], keywords: Mapping[str, Any], *, name: str) -> Any:
    """Await an async function; run a synchronous one, which may return an awaitable, in a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(**keywords)
    value = await run_blocking(lambda: function(**keywords), name=name)
    return await value if inspect.isawaitable(value) else value


class _SyncLoop:
    """The event loop of all synchronous calls of a process, in a daemon thread that the first call starts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """Return the loop; a forked process, which has no copy of the thread, gets a new one."""
        with self._lock:
            if self._loop is None or self._thread is None or not self._thread.is_alive():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="weft", daemon=True)
                self._thread.start()
            return self._loop

    @property
    def is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def forget(self) -> None:
        """Leave the loop to its work: the next call starts another one."""
        with self._lock:
            self._loop = None


_sync_loop = _SyncLoop()

CANCEL_SECONDS = 2.0
"""How long an interrupted call may take to end. A program without effects never notices its cancellation."""


def run_sync(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return the result of a coroutine function; may be called in any thread, with or without a running loop.

    All calls share one event loop and can share connections. An interrupt (Ctrl-C) cancels the work.
    """
    if _sync_loop.is_here:  # called back by work of the loop: waiting here would block it for ever
        return _run_in_thread(lambda: asyncio.run(work()))
    ended = threading.Event()

    async def run() -> tuple[Any, BaseException | None]:
        try:
            return await work(), None
        except (SystemExit, KeyboardInterrupt) as error:  # would end the loop
            return None, error
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(run(), _sync_loop.get())
    try:
        value, error = future.result()
    except BaseException:
        if not ended.is_set():
            future.cancel()
            if not ended.wait(CANCEL_SECONDS):
                _sync_loop.forget()
        raise
    if error is not None:
        raise error
    result: T = value
    return result


def _run_in_thread(function: Callable[[], T]) -> T:
    # Not ThreadPoolExecutor, which every process would pay for when it starts.
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="weft-nested", daemon=True).start()
    return outcome.result()


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
