"""Suspended branches and the effects they wait for, driven by callbacks of the event loop.

An effect is an asyncio task of its own. It is cancelled only once, even if its evaluation is cancelled more
often, because a second cancellation would interrupt its clean-up. The clean-up is waited for, up to
CLEAN_UP_SECONDS.

Callbacks are used because an asyncio task per branch would take three turns of the loop for every effect,
more time than everything else in a step.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from types import CoroutineType
from typing import Any, Protocol

from greenlet import getcurrent

from weft.aio import abandon
from weft.evaluator.branches import Branch
from weft.evaluator.budget import Meter, Scope
from weft.evaluator.errors import BudgetExceeded
from weft.evaluator.resolved import discard

CLEAN_UP_SECONDS = 5.0
"""How long a cancelled effect may take to finish: enough for a script's grace time and kill. After that it is
abandoned."""

log = logging.getLogger(__name__)


class Waitable(Protocol):
    """Something that a branch can wait for."""

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Run the callback once, in the event loop, when there is nothing left to wait for."""
        ...

    def stop(self) -> None:
        """Request an early end; called at most once."""
        ...

    def is_settled(self) -> bool:
        """Return whether the outcome is certain, so that the wait cannot time out any more."""
        ...

    def is_cancelled(self) -> bool:
        """Return whether it was stopped and has no outcome."""
        ...

    def outcome(self) -> Any:
        """Return the result or raise the error."""
        ...


class PendingEffect:
    """An effect that starts when it is waited for, outside of the branch's possibly deep stack."""

    __slots__ = ("_branch", "_callback", "_is_abandoned", "_task", "_timer", "_work", "evaluations")

    def __init__(self, work: Awaitable[Any], branch: Branch) -> None:
        self._work = work
        self._branch = branch
        self._timer: asyncio.TimerHandle | None = None
        self._is_abandoned = False
        self.evaluations = 0
        """Number of evaluations inside the effect. They end by themselves, so it is not abandoned before."""

    @property
    def scope(self) -> Scope:
        """Return the scope of the waiting branch; nested evaluations count in it."""
        return self._branch.scope

    def when_ended(self, callback: Callable[[], None]) -> None:
        """Start the effect, and run the callback when it has finished or is abandoned."""
        self._callback: Callable[[], None] | None = callback
        around = self._branch.gr_context
        context = copy_context() if around is None else around.copy()
        context.run(_CURRENT_EFFECT.set, self)
        work = self._work
        task = work if isinstance(work, CoroutineType) else _as_coroutine(work)
        self._task = asyncio.get_running_loop().create_task(task, context=context)
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Cancel the effect; one that has not started is never started."""
        self._task.cancel()
        if not isinstance(self._work, CoroutineType):  # a coroutine is closed by its task
            discard(self._work)
        self._timer = asyncio.get_running_loop().call_later(CLEAN_UP_SECONDS, self._abandon)

    def is_settled(self) -> bool:
        return self._task.done()

    def is_cancelled(self) -> bool:
        return self._is_abandoned or self._task.cancelled()

    def outcome(self) -> Any:
        return self._task.result()

    def _ended(self, task: asyncio.Future[Any]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def _abandon(self) -> None:
        if self.evaluations:
            self._timer = asyncio.get_running_loop().call_later(CLEAN_UP_SECONDS, self._abandon)
            return
        self._is_abandoned = True
        log.warning(
            "abandoned an effect that ignored its cancellation for %g s: %r", CLEAN_UP_SECONDS, self._task
        )
        abandon(self._task)
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


async def _as_coroutine(work: Awaitable[Any]) -> Any:
    return await work


_CURRENT_EFFECT: ContextVar[PendingEffect | None] = ContextVar("effect", default=None)


def enclosing_scope() -> Scope | None:
    """Return the scope of the branch that waits for the running effect; None outside of effects."""
    effect = _CURRENT_EFFECT.get()
    return None if effect is None else effect.scope


@contextmanager
def evaluating() -> Iterator[None]:
    """Mark the surrounding effect, if there is one, as running an evaluation."""
    effect = _CURRENT_EFFECT.get()
    if effect is None:
        yield
        return
    effect.evaluations += 1
    try:
        yield
    finally:
        effect.evaluations -= 1


class SuspendedBranch:
    """A branch, from its first wait to its end."""

    __slots__ = (
        "_awaited", "_branch", "_ending", "_meter", "_on_end", "_timer", "error", "is_ended", "value",
    )  # fmt: skip

    def __init__(
        self, branch: Branch, meter: Meter, awaited: Waitable, on_end: Callable[["SuspendedBranch"], None]
    ) -> None:
        self._branch = branch
        self._meter = meter
        self._on_end = on_end
        self._ending: BaseException | None = None
        """The error to raise in the branch, because it was stopped or timed out."""
        self._timer: asyncio.TimerHandle | None = None
        self.is_ended = False
        self.error: BaseException | None = None
        self.value: Any = None
        self._wait_for(awaited)

    def stop(self, *arguments: Any) -> None:
        """Cancel the effect that the branch waits for, once, and then raise CancelledError in the branch.

        An outcome that still arrives counts, because it may be stored. The branch then ends at its next wait.
        """
        if not self.is_ended:
            self._stop_with(asyncio.CancelledError(*arguments))

    @property
    def item(self) -> int:
        """Return the number of the current or last item of the branch."""
        return self._branch.item

    def _stop_with(self, ending: BaseException) -> None:
        is_first = self._ending is None
        self._ending = ending
        if is_first:
            self._awaited.stop()

    def _wait_for(self, awaited: Waitable) -> None:
        self._awaited = awaited
        awaited.when_ended(self._continue)
        if self._must_end():
            awaited.stop()
            return
        scope = self._branch.scope
        if scope.has_waits:
            scope.watchers.add(self._set_timer)
        if scope.deadline is not None:
            self._set_timer()

    def _must_end(self) -> bool:
        """Return whether the branch must stop; clears a timeout whose scope the branch has left."""
        ending = self._ending
        if isinstance(ending, BudgetExceeded) and ending.scope not in self._branch.scope.chain():
            self._ending = None
        return self._ending is not None

    def _set_timer(self) -> None:
        deadline = self._branch.scope.deadline
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._time_out)

    def _time_out(self) -> None:
        scope = self._branch.scope
        if scope.deadline is not None and self._ending is None and not self._awaited.is_settled():
            self._stop_with(scope.late(max(asyncio.get_running_loop().time(), scope.deadline)))

    def _continue(self) -> None:
        """Run the branch until it waits again or ends."""
        self._branch.scope.watchers.discard(self._set_timer)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            awaited = self._resume()
        except BaseException as error:
            self.error = error
        else:
            if not self._branch.dead:
                self._wait_for(awaited)
                return
            self.value = awaited
        self.is_ended = True
        self._on_end(self)

    def _resume(self) -> Any:
        branch = self._branch
        branch.parent = getcurrent()  # the greenlet that started the branch may have ended or wait for it
        thrown: BaseException | None = None
        value = None
        if self._ending is not None and self._awaited.is_cancelled():
            thrown, self._ending = self._ending, None
        else:
            try:
                value = self._awaited.outcome()
            except BaseException as error:
                thrown = error
        if thrown is None:
            return resume(self._meter, branch, branch.switch, value)
        return resume(self._meter, branch, branch.throw, type(thrown), thrown, thrown.__traceback__)


def resume(meter: Meter, branch: Branch, switch: Callable[..., Any], *arguments: Any) -> Any:
    """Run a branch until it waits or ends; return what it waits for, or its value."""
    running = meter.scope
    meter.enter(branch.scope)
    try:
        return switch(*arguments)
    finally:
        meter.enter(running)


class BranchGroup:
    """Branches that are waited for together. An error in one stops the others.

    Of several errors the one of the first item is raised, whichever came first: a replay gets the same
    results at other times and must raise the same error.
    """

    def __init__(self) -> None:
        self.branches: list[SuspendedBranch] = []
        """All branches, in the order in which they started."""
        self._running = 0
        self._callback: Callable[[], None] | None = None
        self._has_failed = False
        self._is_stopped = False
        self._is_discarded = False

    def add(self, branch: Branch, meter: Meter, awaited: Waitable, on_end: Callable[[], None]) -> None:
        """Let a suspended branch continue on its own; call `on_end` when it has ended."""

        def end(suspended: SuspendedBranch) -> None:
            on_end()
            self._ended(suspended)

        self._running += 1
        self.branches.append(SuspendedBranch(branch, meter, awaited, end))

    def when_ended(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        if not self._running:
            asyncio.get_running_loop().call_soon(self._run_callback)

    def stop(self) -> None:
        self._is_stopped = True
        for suspended in self.branches:
            suspended.stop()

    def discard(self) -> None:
        """Stop all branches and ignore their outcomes."""
        self._is_discarded = True
        self.stop()

    def is_settled(self) -> bool:
        """Return whether all branches have ended or were stopped."""
        return self._is_stopped or not self._running

    def is_cancelled(self) -> bool:
        """Return whether the group was stopped from outside before all branches had ended."""
        if self._has_failed or self._is_discarded or self.first_error()[1] is not None:
            return False  # an earlier failure counts, because it may be stored
        return any(suspended.error is not None for suspended in self.branches)

    def outcome(self) -> None:
        """Raise the error of the first item that failed, if there is one."""
        _, error = self.first_error()
        if error is not None and not self._is_discarded:
            raise error

    def first_error(self) -> tuple[int, BaseException | None]:
        """Return the number and error of the first failed item, or (0, None); stopped ones do not count."""
        own = [
            (suspended.item, suspended.error)
            for suspended in self.branches
            if suspended.error is not None and not isinstance(suspended.error, asyncio.CancelledError)
        ]
        return min(own, key=lambda one: one[0], default=(0, None))

    def _ended(self, suspended: SuspendedBranch) -> None:
        self._running -= 1
        if suspended.error is not None and not self._is_stopped:
            self._has_failed = True
            self.stop()
        if not self._running:
            asyncio.get_running_loop().call_soon(self._run_callback)

    def _run_callback(self) -> None:
        """Run the callback in a new turn of the loop, so that the stack does not grow with nested groups."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()
