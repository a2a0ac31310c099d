"""One evaluation under way: its branches, and how compiled code waits.

Compiled code is plain functions, so that pure code costs no await. It runs in greenlets; `wait` switches to
the event loop until an awaitable is done. A branch is a greenlet with step keys of its own.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar, cast

from greenlet import getcurrent, greenlet

from weft.errors import InternalError, WeftError
from weft.evaluator.budget import EvaluationLimits, Meter, Scope
from weft.evaluator.effects import Effects, Turn
from weft.evaluator.errors import exhausted
from weft.evaluator.waiting import evaluating, perform, stop, together

T = TypeVar("T")

MAX_NESTED_BRANCHES = 500
"""How deep `map` in `map` in `map` goes. A branch that begins inside another takes room on the C stack."""

_SCOPE: ContextVar[Scope] = ContextVar("scope")
"""The scope of the branch that an effect is performed for: what the effect evaluates in turn counts there."""


class Branch(greenlet):
    """Code that runs by itself, one step after the other."""

    def __init__(self, run: Callable[[], Any], scope: Scope, prefix: str = "", *, level: int = 0) -> None:
        super().__init__(run)
        self.gr_context = copy_context()  # else it would begin with an empty one
        self.scope = scope
        self.level = level
        self.prefix = prefix
        self.item = 0
        """The number of the item that is worked on, from 1; 0: there are none."""
        self.steps = 0
        self.conversation: tuple[Turn, ...] = ()
        """The exchanges of tasks with `history` so far: those before the branch, then its own."""

    def next_key(self) -> str:
        """The key of the step that is taken now."""
        self.steps += 1
        item = f"/{self.item}/" if self.item else ""
        return f"{self.prefix}{item}{self.steps}"


class Machine:
    """What compiled code needs at run time."""

    def __init__(self, effects: Effects, *, limits: EvaluationLimits | None = None) -> None:
        self.effects = effects
        self.limits = limits or EvaluationLimits()
        self.meter = Meter(Scope({}), size=self.limits.size, now=self.now)
        self._waiting = 0

    def new_scope(self) -> Scope:
        """A scope with the limits of a whole evaluation; its time begins now."""
        seconds = self.limits.seconds
        return Scope(self.limits.budgets(), seconds=seconds, now=0.0 if seconds is None else self.now())

    def now(self) -> float:
        """The time of the event loop, which deadlines are counted in."""
        return asyncio.get_running_loop().time()

    async def run(self, code: Callable[[], T], *, prefix: str = "", scope: Scope | None = None) -> T:
        """The value of the code, in a branch of its own; `prefix` begins the keys of its steps.

        Without a scope it counts for the branch that waits for it.
        """
        branch = Branch(code, scope or _SCOPE.get(None) or self.new_scope(), prefix)
        token = _SCOPE.set(branch.scope)
        try:
            with evaluating():
                return cast(T, await self._drive(branch, self._resume(branch, branch.switch)))
        finally:
            _SCOPE.reset(token)

    def wait(self, awaitable: Awaitable[T]) -> T:
        """The result of an effect; everything else goes on meanwhile. Only for code inside `run`."""
        try:
            return self._wait(awaitable)
        except WeftError:
            raise
        except Exception as error:  # here, for further out it would look like a mistake of the program
            raise InternalError(f"an effect failed: {type(error).__name__}: {error}") from error

    def _wait(self, awaitable: Awaitable[T]) -> T:
        return _switch(perform(awaitable, current_branch().scope, self.now))

    def next_key(self) -> str:
        """The key of the step that the running branch takes now."""
        return current_branch().next_key()

    def within(self, scope: Scope, code: Callable[[], T]) -> T:
        """The value of the code, counted in a scope inside that of the running branch."""
        branch = current_branch()
        outer = branch.scope
        branch.scope = scope
        self.meter.enter(scope)
        try:
            return code()
        finally:
            branch.scope = outer
            self.meter.enter(outer)

    def all(self, thunks: Sequence[Callable[[], T]]) -> list[T]:
        """The values of all, in order; where they wait, they wait together. An error stops the others."""
        return self.each(len(thunks), lambda index: thunks[index]())

    def each(self, count: int, act: Callable[[int], T]) -> list[T]:
        """The values of the act on 0, 1 ... in order; as `all`.

        A worker goes on with the next one until it must wait: code without effects needs one worker only.
        Each item begins with the conversation as it is now; afterwards it has what they all recorded, in
        their order, whatever ended first.
        """
        parent = current_branch()
        if parent.level >= MAX_NESTED_BRANCHES:
            raise exhausted("depth", f"more than {MAX_NESTED_BRANCHES} concurrent forms inside each other")
        base = parent.next_key()
        values: list[Any] = [None] * count
        indexes = iter(range(count))
        before = parent.conversation
        recorded: dict[int, tuple[Turn, ...]] = {}

        def work() -> None:
            branch = current_branch()
            for index in indexes:
                branch.item = index + 1
                branch.steps = 0
                branch.conversation = before
                values[index] = act(index)
                if branch.conversation is not before:
                    recorded[index] = branch.conversation[len(before) :]

        under_way: list[asyncio.Task[Any]] = []
        try:
            while not under_way or self._waiting < self.limits.concurrency:
                branch = Branch(work, parent.scope, base, level=parent.level + 1)
                awaitable = self._resume(branch, branch.switch)
                if branch.dead:
                    break  # nothing is left to begin
                under_way.append(self._begin(branch, awaitable))
            if under_way:
                _switch(together(under_way, parent.scope, self.now))
        except BaseException:
            if under_way:
                _switch(stop(under_way))  # whatever the time: nothing may be left behind
            raise
        for index in sorted(recorded):
            parent.conversation += recorded[index]
        return values

    def _resume(self, branch: Branch, switch: Callable[..., Any], *arguments: Any) -> Any:
        """Go on with a branch until it waits or ends; what it waits for, or its value."""
        running = self.meter.scope
        self.meter.enter(branch.scope)
        try:
            return switch(*arguments)
        finally:
            self.meter.enter(running)

    def _begin(self, branch: Branch, awaitable: Any) -> asyncio.Task[Any]:
        """Let a branch that waits go on by itself."""
        task = asyncio.ensure_future(self._drive(branch, awaitable))
        self._waiting += 1
        task.add_done_callback(self._ended)
        return task

    def _ended(self, _: asyncio.Task[Any]) -> None:
        self._waiting -= 1

    async def _drive(self, branch: Branch, awaitable: Any) -> Any:
        """Run a branch to its end, awaiting for it; `awaitable` is what it waits for first, or its value."""
        value = awaitable
        while not branch.dead:
            branch.parent = getcurrent()  # who began the branch may have ended, or wait for it
            _SCOPE.set(branch.scope)
            try:
                answer = await value
            except BaseException:
                value = self._resume(branch, branch.throw, *sys.exc_info())
            else:
                value = self._resume(branch, branch.switch, answer)
        return value


def scope_of_effect() -> Scope | None:
    """The scope that the effect which runs now is performed for; None: it is for no evaluation."""
    return _SCOPE.get(None)


def current_branch() -> Branch:
    """The branch that runs now."""
    branch = getcurrent()
    if not isinstance(branch, Branch):
        raise InternalError("compiled code runs only inside Machine.run")
    return branch


def _switch(awaitable: Awaitable[T]) -> T:
    """Leave the running branch until the awaitable is done."""
    loop = current_branch().parent
    return cast(T, loop.switch(awaitable))  # type: ignore[union-attr]  # a started greenlet has a parent
