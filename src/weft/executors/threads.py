"""Work that blocks, beside the event loop: it can report, and ask whether to stop."""

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import TypeVar

import msgspec

from weft.executors.protocol import Report, Work
from weft.threads import run_blocking

T = TypeVar("T")


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
