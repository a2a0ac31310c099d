"""Effects under way: tasks of the event loop that branches wait for.

An effect is a task of its own and is cancelled once, however often its evaluation is: a second cancellation
would cut its clean-up short. The clean-up is waited for, for a while.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import CoroutineType
from typing import Any, Protocol

from weft.evaluator.branches import Branch
from weft.evaluator.budget import Scope
from weft.evaluator.known import give_up
from weft.threads import abandon

CLEAN_UP_SECONDS = 5.0
"""How long an effect may take to end once it is cancelled: by then a script had its grace time and was
killed. What takes longer is left to itself."""

log = logging.getLogger(__name__)


class Awaited(Protocol):
    """What a branch waits for."""

    def when_ended(self, act: Callable[[], None]) -> None:
        """Call that, once, in the event loop, when there is nothing to wait for any more."""
        ...

    def stop(self) -> None:
        """Bring it to an end soon; called once at most."""
        ...

    def is_settled(self) -> bool:
        """Whether its outcome is certain, though it may take a moment to end: it cannot be late any more."""
        ...

    def is_cut(self) -> bool:
        """Whether it has ended without an outcome, because it was stopped."""
        ...

    def outcome(self) -> Any:
        """What it gave; raises its error."""
        ...


class Effect:
    """An effect, which begins when it is waited for: not in the branch, which may be deep in its stack."""

    __slots__ = ("_act", "_branch", "_is_let_go", "_task", "_timer", "_work", "evaluations")

    def __init__(self, work: Awaitable[Any], branch: Branch) -> None:
        self._work = work
        self._branch = branch
        self._timer: asyncio.TimerHandle | None = None
        self._is_let_go = False
        self.evaluations = 0
        """How many evaluations run inside it: these end by themselves, when what they wait for has ended."""

    @property
    def scope(self) -> Scope:
        """Of the branch that waits: what the effect evaluates in turn counts there."""
        return self._branch.scope

    def when_ended(self, act: Callable[[], None]) -> None:
        """Begin, and call that when the effect has ended, or is left to itself."""
        self._act: Callable[[], None] | None = act
        around = self._branch.gr_context
        context = copy_context() if around is None else around.copy()
        context.run(_EFFECT.set, self)
        work = self._work
        task = work if isinstance(work, CoroutineType) else _awaiting(work)
        self._task = asyncio.get_running_loop().create_task(task, context=context)
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Cancel it. What has not begun yet never will: nobody has paid for it."""
        self._task.cancel()
        if not isinstance(self._work, CoroutineType):  # else the task itself ends it
            give_up(self._work)
        self._timer = asyncio.get_running_loop().call_later(CLEAN_UP_SECONDS, self._let_go)

    def is_settled(self) -> bool:
        """Whether it has ended."""
        return self._task.done()

    def is_cut(self) -> bool:
        """Whether it was cancelled before it had an outcome; one that came in time counts."""
        return self._is_let_go or self._task.cancelled()

    def outcome(self) -> Any:
        """What it gave."""
        return self._task.result()

    def _ended(self, task: asyncio.Future[Any]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not task.cancelled():
            task.exception()  # seen, also when something else is told
        act, self._act = self._act, None
        if act is not None:
            act()

    def _let_go(self) -> None:
        if self.evaluations:
            self._timer = asyncio.get_running_loop().call_later(CLEAN_UP_SECONDS, self._let_go)
            return
        self._is_let_go = True
        log.warning("an effect did not end %g s after it was cancelled: %r", CLEAN_UP_SECONDS, self._task)
        abandon(self._task)
        act, self._act = self._act, None
        if act is not None:
            act()


async def _awaiting(work: Awaitable[Any]) -> Any:
    return await work


_EFFECT: ContextVar[Effect | None] = ContextVar("effect", default=None)


def scope_around() -> Scope | None:
    """The scope of the branch that waits for what runs now; None: none does."""
    effect = _EFFECT.get()
    return None if effect is None else effect.scope


@contextmanager
def evaluating() -> Iterator[None]:
    """Say to the effect around, if there is one, that it evaluates something."""
    effect = _EFFECT.get()
    if effect is None:
        yield
        return
    effect.evaluations += 1
    try:
        yield
    finally:
        effect.evaluations -= 1
