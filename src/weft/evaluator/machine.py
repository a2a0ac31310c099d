"""One evaluation under way: its branches, and how compiled code waits.

Compiled code is plain functions, so that pure code costs no await. It runs in greenlets; `wait` switches to
the event loop until an awaitable is done. A branch is a greenlet with step keys of its own.
"""

import asyncio
import contextvars
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

from weft.errors import InternalError
from weft.evaluator.effects import Effects

T = TypeVar("T")


class Branch(greenlet):
    """Code that runs by itself, one step after the other."""

    def __init__(self, run: Callable[[], Any], prefix: str = "") -> None:
        super().__init__(run)
        self.gr_context = contextvars.copy_context()  # else it would begin with an empty one
        self.begin(prefix)

    def begin(self, prefix: str) -> None:
        """Count steps from 1 below the prefix."""
        self.prefix = prefix
        self.steps = 0

    def next_key(self) -> str:
        """The key of the step that is taken now."""
        self.steps += 1
        return f"{self.prefix}{self.steps}"


class Machine:
    """What compiled code needs at run time."""

    def __init__(self, effects: Effects, *, max_concurrency: int = 1_000) -> None:
        self.effects = effects
        self.max_concurrency = max_concurrency

    async def run(self, code: Callable[[], T], *, prefix: str = "") -> T:
        """The value of the code, in a branch of its own; `prefix` begins the keys of its steps."""
        branch = Branch(code, prefix)
        return cast(T, await _drive(branch, branch.switch()))

    def wait(self, awaitable: Awaitable[T]) -> T:
        """The result of an awaitable; everything else goes on meanwhile. Only for code inside `run`."""
        loop = current_branch().parent
        return cast(T, loop.switch(awaitable))  # type: ignore[union-attr]  # a started greenlet has a parent

    def next_key(self) -> str:
        """The key of the step that the running branch takes now."""
        return current_branch().next_key()

    def all(self, thunks: Sequence[Callable[[], T]]) -> list[T]:
        """The values of all, in order; where they wait, they wait together. The first error stops the others.

        A worker goes on with the next thunk until it must wait: code without effects needs one worker only.
        """
        base = self.next_key()
        values: list[Any] = [None] * len(thunks)
        indexes = iter(range(len(thunks)))

        def work() -> None:
            branch = current_branch()
            for index in indexes:
                branch.begin(f"{base}/{index + 1}/")
                values[index] = thunks[index]()

        under_way: list[asyncio.Task[Any]] = []
        try:
            while len(under_way) < self.max_concurrency:
                branch = Branch(work)
                awaitable = branch.switch()
                if branch.dead:
                    break  # nothing is left to begin
                under_way.append(asyncio.ensure_future(_drive(branch, awaitable)))
            if under_way:
                self.wait(_together(under_way))
        except BaseException:
            self.wait(_stop(under_way))
            raise
        return values


def current_branch() -> Branch:
    """The branch that runs now."""
    branch = getcurrent()
    if not isinstance(branch, Branch):
        raise InternalError("compiled code runs only inside Machine.run")
    return branch


async def _drive(branch: Branch, awaitable: Any) -> Any:
    """Run a branch to its end, awaiting for it; `awaitable` is what it waits for first, or its value."""
    value = awaitable
    while not branch.dead:
        branch.parent = getcurrent()  # who began the branch may have ended, or wait for it
        try:
            answer = await value
        except BaseException:
            value = branch.throw(*sys.exc_info())
        else:
            value = branch.switch(answer)
    return value


async def _together(under_way: Sequence[asyncio.Task[Any]]) -> None:
    """Wait for all; raises the first error, of several at once the one that stands first."""
    ended, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_EXCEPTION)
    for task in under_way:
        if task in ended:
            task.result()


async def _stop(under_way: Sequence[asyncio.Task[Any]]) -> None:
    for task in under_way:
        task.cancel()
    if under_way:
        await asyncio.wait(under_way)
        for task in under_way:
            if not task.cancelled():
                task.exception()  # seen: the error that stopped them is the one that is told
