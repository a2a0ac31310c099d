"""One at a time, in the order they came, whichever event loop they wait in."""

import asyncio
import threading
from collections import deque

_Place = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Line:
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
