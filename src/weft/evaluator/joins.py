"""Branches that wait for effects, driven by callbacks of the event loop.

An effect is a task of its own and is cancelled once, however often its evaluation is: a second cancellation
would cut its clean-up short. The clean-up is waited for, for a while.

They are driven by callbacks of the event loop. A task for each, with a wait inside, would take three turns
of the loop for every effect, and more time than the rest of a step.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import CoroutineType
from typing import Any, Protocol

from greenlet import getcurrent

from weft.aio import abandon
from weft.evaluator.branches import Branch
from weft.evaluator.budget import Meter, Scope
from weft.evaluator.errors import BudgetExceeded
from weft.evaluator.resolved import give_up

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


class SuspendedBranch:
    """A branch from its first wait to its end."""

    __slots__ = (
        "_awaited", "_branch", "_ending", "_meter", "_on_end", "_timer", "error", "is_ended", "value",
    )  # fmt: skip

    def __init__(
        self, branch: Branch, meter: Meter, awaited: Awaited, on_end: Callable[["SuspendedBranch"], None]
    ) -> None:
        self._branch = branch
        self._meter = meter
        self._on_end = on_end
        self._ending: BaseException | None = None
        """What the branch is to end with: it was stopped, or is late."""
        self._timer: asyncio.TimerHandle | None = None
        self.is_ended = False
        self.error: BaseException | None = None
        self.value: Any = None
        self._wait_for(awaited)

    def stop(self, *words: Any) -> None:
        """Cancel what the branch waits for, once, and raise CancelledError in it when that has ended.

        An outcome that comes all the same counts: it may be stored. The branch then ends where it waits next.
        """
        if not self.is_ended:
            self._end_with(asyncio.CancelledError(*words))

    @property
    def item(self) -> int:
        """The number of the item that the branch works on, or worked on last."""
        return self._branch.item

    def _end_with(self, ending: BaseException) -> None:
        is_first = self._ending is None
        self._ending = ending
        if is_first:
            self._awaited.stop()

    def _wait_for(self, awaited: Awaited) -> None:
        self._awaited = awaited
        awaited.when_ended(self._go_on)
        if self._is_to_end():
            awaited.stop()
            return
        scope = self._branch.scope
        if scope.has_waits:
            scope.watchers.add(self._look_at_deadline)
        if scope.deadline is not None:
            self._look_at_deadline()

    def _is_to_end(self) -> bool:
        """Whether the branch goes no further; it may have left the scope that it was late in."""
        ending = self._ending
        if isinstance(ending, BudgetExceeded) and ending.scope not in self._branch.scope.chain():
            self._ending = None
        return self._ending is not None

    def _look_at_deadline(self) -> None:
        deadline = self._branch.scope.deadline
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._be_late)

    def _be_late(self) -> None:
        scope = self._branch.scope
        if scope.deadline is not None and self._ending is None and not self._awaited.is_settled():
            self._end_with(scope.late(max(asyncio.get_running_loop().time(), scope.deadline)))

    def _go_on(self) -> None:
        """Run the branch until it waits again, or ends."""
        self._branch.scope.watchers.discard(self._look_at_deadline)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            awaited = self._resume()
        except BaseException as error:
            self.error = error
            self._end()
            return
        if self._branch.dead:
            self.value = awaited
            self._end()
        else:
            self._wait_for(awaited)

    def _resume(self) -> Any:
        branch = self._branch
        branch.parent = getcurrent()  # who began the branch may have ended, or wait for it
        thrown: BaseException | None = None
        value = None
        if self._ending is not None and self._awaited.is_cut():
            thrown, self._ending = self._ending, None
        else:
            try:
                value = self._awaited.outcome()
            except BaseException as error:
                thrown = error
        if thrown is None:
            return resume(self._meter, branch, branch.switch, value)
        return resume(self._meter, branch, branch.throw, type(thrown), thrown, thrown.__traceback__)

    def _end(self) -> None:
        self.is_ended = True
        self._on_end(self)


def resume(meter: Meter, branch: Branch, switch: Callable[..., Any], *arguments: Any) -> Any:
    """Go on with a branch until it waits or ends; what it waits for, or its value."""
    running = meter.scope
    meter.enter(branch.scope)
    try:
        return switch(*arguments)
    finally:
        meter.enter(running)


class BranchGroup:
    """Strands that are waited for together. An error of one stops the others.

    Of several errors the one of the first item is raised, whichever came first: another evaluation, which
    gets the same answers at other times, must raise the same.
    """

    def __init__(self) -> None:
        self._strands: list[SuspendedBranch] = []
        self._under_way = 0
        self._act: Callable[[], None] | None = None
        self._has_failed = False
        self._is_stopped = False
        self._is_given_up = False

    def add(self, branch: Branch, meter: Meter, awaited: Awaited, on_end: Callable[[], None]) -> None:
        """Let a branch that waits go on by itself; call that when it has ended."""

        def end(strand: SuspendedBranch) -> None:
            on_end()
            self._ended(strand)

        self._under_way += 1
        self._strands.append(SuspendedBranch(branch, meter, awaited, end))

    @property
    def strands(self) -> Sequence[SuspendedBranch]:
        """All, in the order in which they began."""
        return self._strands

    def when_ended(self, act: Callable[[], None]) -> None:
        """Call that when all have ended."""
        self._act = act
        if not self._under_way:
            asyncio.get_running_loop().call_soon(self._call)

    def stop(self) -> None:
        """Stop all that are under way."""
        self._is_stopped = True
        for strand in self._strands:
            strand.stop()

    def give_up(self) -> None:
        """Stop all; nobody wants the outcome, only that nothing is left behind."""
        self._is_given_up = True
        self.stop()

    def is_settled(self) -> bool:
        """Whether all have ended, or are stopped."""
        return self._is_stopped or not self._under_way

    def is_cut(self) -> bool:
        """Whether they were stopped from outside, and not all had ended."""
        if self._has_failed or self._is_given_up or self.first_error()[1] is not None:
            return False  # a failure that came in time may be stored: it counts
        return any(strand.error is not None for strand in self._strands)

    def outcome(self) -> None:
        """Nothing; raises the error of the first item that has failed."""
        _, error = self.first_error()
        if error is not None and not self._is_given_up:
            raise error

    def first_error(self) -> tuple[int, BaseException | None]:
        """The first item that has failed, and its error; what was only stopped has not."""
        own = [
            (strand.item, strand.error)
            for strand in self._strands
            if strand.error is not None and not isinstance(strand.error, asyncio.CancelledError)
        ]
        return min(own, key=lambda one: one[0], default=(0, None))

    def _ended(self, strand: SuspendedBranch) -> None:
        self._under_way -= 1
        if strand.error is not None and not self._is_stopped:
            self._has_failed = True
            self.stop()
        if not self._under_way:
            asyncio.get_running_loop().call_soon(self._call)

    def _call(self) -> None:
        """Go on with who waits. A turn later than the last end: strands inside each other take no stack."""
        act, self._act = self._act, None
        if act is not None:
            act()
