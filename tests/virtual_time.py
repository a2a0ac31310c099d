"""An event loop whose clock jumps: what waits an hour takes no time, and always the same course."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class JumpingSelector(selectors.BaseSelector):
    """Never waits: tells the loop how long it would have."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._real = selectors.DefaultSelector()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits, and nothing will ever happen"
        ready = self._real.select(0)
        if not ready:
            self._loop.jump(max(timeout, 0.0))
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Any:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop with a clock of its own, from 0."""

    def __init__(self, selector: type[JumpingSelector] = JumpingSelector) -> None:
        self._now = 0.0
        super().__init__(selector(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds


def run_virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)
