"""Where requests wait until there is room for them."""

import asyncio


class Line:
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
