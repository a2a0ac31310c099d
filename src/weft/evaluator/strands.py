"""Strands: branches that wait, and go on by themselves when what they wait for has ended.

They are driven by callbacks of the event loop. A task for each, with a wait inside, would take three turns
of the loop for every effect, and more time than the rest of a step.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from greenlet import getcurrent

from weft.evaluator.branches import Branch
from weft.evaluator.budget import Meter
from weft.evaluator.waiting import Awaited


class Strand:
    """A branch from its first wait to its end."""

    __slots__ = (
        "_awaited",
        "_branch",
        "_meter",
        "_on_end",
        "_thrown",
        "_timer",
        "error",
        "is_ended",
        "value",
    )

    def __init__(
        self, branch: Branch, meter: Meter, awaited: Awaited, on_end: Callable[["Strand"], None]
    ) -> None:
        self._branch = branch
        self._meter = meter
        self._on_end = on_end
        self._thrown: BaseException | None = None
        """What the branch gets instead of an outcome: it was stopped, or is late."""
        self._timer: asyncio.TimerHandle | None = None
        self.is_ended = False
        self.error: BaseException | None = None
        self.value: Any = None
        self._wait_for(awaited)

    def stop(self) -> None:
        """Cancel what the branch waits for, once; when that has ended the branch gets CancelledError."""
        if self.is_ended:
            return
        is_first = self._thrown is None
        self._thrown = asyncio.CancelledError()
        if is_first:
            self._awaited.stop()

    def _wait_for(self, awaited: Awaited) -> None:
        self._awaited = awaited
        scope = self._branch.scope
        if scope.has_waits:
            scope.watchers.add(self._look_at_deadline)
        self._look_at_deadline()
        awaited.when_ended(self._go_on)

    def _look_at_deadline(self) -> None:
        deadline = self._branch.scope.deadline
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._be_late)

    def _be_late(self) -> None:
        scope = self._branch.scope
        if scope.deadline is None or self._thrown is not None or self._awaited.is_settled():
            return
        self._thrown = scope.late(max(asyncio.get_running_loop().time(), scope.deadline))
        self._awaited.stop()

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
        thrown, self._thrown = self._thrown, None
        if thrown is None:
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


class Join:
    """Strands that are waited for together. An error of one stops the others."""

    def __init__(self) -> None:
        self._strands: list[Strand] = []
        self._under_way = 0
        self._act: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._is_stopped = False

    def add(self, branch: Branch, meter: Meter, awaited: Awaited, on_end: Callable[[], None]) -> None:
        """Let a branch that waits go on by itself; call that when it has ended."""

        def end(strand: Strand) -> None:
            on_end()
            self._ended(strand)

        self._under_way += 1
        self._strands.append(Strand(branch, meter, awaited, end))

    @property
    def strands(self) -> Sequence[Strand]:
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

    def is_settled(self) -> bool:
        """Whether all have ended, or are stopped."""
        return self._is_stopped or not self._under_way

    def outcome(self) -> None:
        """Nothing; raises the first error, of several at once the one that stands first."""
        if self._error is not None:
            raise self._error

    def _ended(self, strand: Strand) -> None:
        self._under_way -= 1
        loop = asyncio.get_running_loop()
        if strand.error is not None and not self._is_stopped:
            self._is_stopped = True
            loop.call_soon(self._fail)
        elif not self._under_way:
            loop.call_soon(self._call)

    def _fail(self) -> None:
        """Keep the error and stop the others; what ended at the same turn of the event loop counts."""
        self._error = next(strand.error for strand in self._strands if strand.error is not None)
        if self._under_way:
            self.stop()
        else:
            self._call()

    def _call(self) -> None:
        """Go on with who waits. A turn later than the last end: strands inside each other take no stack."""
        act, self._act = self._act, None
        if act is not None:
            act()
