"""A place in a queue that several event loops wait in."""

import asyncio
from typing import Any

from weft.llm.providers.timing import Timing


class Place:
    """Where one request waits, in the event loop that it was made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> bool:
        """Have it look again, from whatever thread; False when its loop is closed and nobody waits there."""
        try:
            self._loop.call_soon_threadsafe(self._woken.set)
        except RuntimeError:
            return False
        return True

    def sleep_on(self) -> None:
        """From now on `rest` waits for the next `wake`."""
        self._woken.clear()

    async def rest(self, seconds: float | None, timing: Timing) -> None:
        """Wait until it is woken, or that long."""
        if seconds is None:
            await self._woken.wait()
            return
        waiting: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(self._woken.wait()),
            asyncio.ensure_future(timing.sleep(seconds)),
        }
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
