"""Blocking code beside the event loop: each call in a thread of its own."""

import asyncio
import threading
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
