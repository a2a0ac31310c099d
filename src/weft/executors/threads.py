"""Blocking code beside the event loop: each call in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Generator
from contextvars import copy_context
from typing import Any, TypeVar

import msgspec

from weft.executors.protocol import Report, Work

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


async def run_blocking_work(function: Callable[[Work], T], work: Work, *, name: str) -> T:
    """The value of a function that blocks and gets the work; it can report, and ask whether to stop."""
    is_over = threading.Event()
    loop = asyncio.get_running_loop()
    in_thread = msgspec.structs.replace(
        work, report=_threadsafe(work.report, loop), is_cancelled=is_over.is_set
    )
    try:
        return await run_blocking(lambda: function(in_thread), name=name)
    finally:
        is_over.set()


class _Done:
    """What may be awaited but need not be."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


def _threadsafe(report: Report, loop: asyncio.AbstractEventLoop) -> Report:
    async def report_now(fraction: float) -> None:
        await report(fraction)

    def from_thread(fraction: float) -> _Done:
        reporting = report_now(fraction)
        try:
            reported = asyncio.run_coroutine_threadsafe(reporting, loop)
        except RuntimeError:
            reporting.close()  # The loop is closed: nobody listens any more.
            return _Done()
        reported.result()  # Waited for: reports stay in order, none comes after the result, none pile up.
        return _Done()

    return from_thread
