"""Runs compiled code in branches, and lets it wait for effects.

Compiled code consists of plain functions, so that pure code needs no await. It runs in greenlets; `wait`
switches to the event loop until an awaitable is done. A branch is a greenlet with its own step keys.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from weft.errors import WeftError, unexpected
from weft.evaluator.branches import Branch, ReplayedLimit, current_branch, is_outer_budget_error
from weft.evaluator.budget import EvaluationLimits, Meter, Scope, SuspendAwareDeadline
from weft.evaluator.budget_account import pay
from weft.evaluator.effects import Effects, Turn
from weft.evaluator.errors import BudgetExceeded, TaskFailed, exhausted
from weft.evaluator.joins import (
    BranchGroup,
    PendingEffect,
    SuspendedBranch,
    Waitable,
    enclosing_scope,
    evaluating,
    resume,
)
from weft.evaluator.replay_log import History, LimitReached
from weft.evaluator.resolved import Resolved, discard

T = TypeVar("T")

MAX_NESTED_BRANCHES = 500
"""How deep concurrent forms such as `map` may nest. A branch inside another one uses C stack."""

MAX_RESOLVED_IN_A_ROW = 200
"""How many steps with known results may follow each other before other tasks of the event loop get a turn."""


class Machine:
    """The run-time environment of compiled code."""

    def __init__(
        self, effects: Effects, *, limits: EvaluationLimits | None = None, history: History | None = None
    ) -> None:
        self.effects = effects
        self.limits = limits or EvaluationLimits()
        self.history = history or History()
        self.meter = Meter(Scope({}), size=self.limits.size, now=self.now)
        self._waiting = 0
        """How many branches of concurrent forms are suspended; `limits.concurrency` bounds it."""
        self._resolved_in_a_row = 0
        """Steps since the last wait."""
        self._has_paused = False
        """Whether any scope was entered with a paused clock, which starts at the first effect in it."""
        self._replaying_limits = 0
        """How many running scopes replay a recorded limit."""

    def new_scope(self) -> Scope:
        """Return a scope with the limits of a whole evaluation; its time starts now."""
        seconds = self.limits.seconds
        return Scope(self.limits.budgets(), seconds=seconds, now=0.0 if seconds is None else self.now())

    def now(self) -> float:
        """Return the time of the event loop, which deadlines use."""
        return asyncio.get_running_loop().time()

    async def run(self, code: Callable[[], T], *, prefix: str = "", scope: Scope | None = None) -> T:
        """Run code in a new branch and return its value; `prefix` starts the keys of its steps.

        Without `scope`, its usage counts in the scope of the branch that waits for the running effect; if
        there is no such branch, in a new scope.
        """
        branch = Branch(code, scope or enclosing_scope() or self.new_scope(), prefix)
        with evaluating():
            found = resume(self.meter, branch, branch.switch)
            return cast(T, found if branch.dead else await self._drive(branch, found))

    async def _drive(self, branch: Branch, awaited: Waitable) -> Any:
        """Wait for a suspended branch and return its value; a cancellation is passed on to the branch."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def end(_: SuspendedBranch) -> None:
            if not ended.done():
                ended.set_result(None)

        suspended = SuspendedBranch(branch, self.meter, awaited, end)
        while not suspended.is_ended:
            try:
                await ended
            except asyncio.CancelledError as cancellation:
                ended = loop.create_future()
                suspended.stop(*cancellation.args)
        if suspended.error is not None:
            raise suspended.error
        return suspended.value

    def wait(self, awaitable: Awaitable[T], *, composite: str | None = None) -> T:
        """Wait for the result of an effect while other branches run. Only for code inside `run`.

        While a recorded limit is replayed, the recorded error is raised instead of starting an effect. Only a
        composite may still run, if steps are recorded at or below its key `composite`.
        """
        branch = current_branch()
        if isinstance(awaitable, Resolved):
            return cast(T, awaitable.value)
        self._resolved_in_a_row = 0
        if self._replaying_limits and (composite is None or not self.history.is_known(composite)):
            try:
                branch.scope.raise_replayed_limit()
            except BudgetExceeded:
                discard(awaitable)
                raise
        if self._has_paused and composite is None:
            branch.scope.start_clock(self.now())
        effect = PendingEffect(awaitable, branch)
        try:
            return cast(T, branch.pause(effect))
        except WeftError:
            raise
        except Exception as error:  # unwrapped, a ValueError would look like an error of the program
            raise unexpected(error, what="an effect failed") from error

    def next_key(self) -> str:
        """Return the key of the next step of the running branch."""
        branch = current_branch()
        self._yield_to_loop(branch)
        return branch.next_key()

    def _yield_to_loop(self, branch: Branch) -> None:
        """Give the event loop a turn after MAX_RESOLVED_IN_A_ROW steps without a wait."""
        self._resolved_in_a_row += 1
        if self._resolved_in_a_row >= MAX_RESOLVED_IN_A_ROW:
            self._resolved_in_a_row = 0
            branch.pause(PendingEffect(asyncio.sleep(0), branch))

    def timed_scope(self, seconds: float, *, is_enforced_elsewhere: bool = False) -> Scope:
        """Return an inner scope of the running branch with a time limit that counts waits for people."""
        now = self.now()
        waits = SuspendAwareDeadline(now + seconds, is_enforced_elsewhere=is_enforced_elsewhere)
        return Scope({}, current_branch().scope, seconds=seconds, now=now, waits=waits)

    def within(self, scope: Scope, code: Callable[[], T]) -> T:
        """Run code in an inner scope of the running branch and return its value."""
        branch = current_branch()
        outer = branch.scope
        branch.scope = scope
        self.meter.enter(scope)
        try:
            return code()
        finally:
            branch.scope = outer
            self.meter.enter(outer)

    def within_limits(self, scope: Scope, code: Callable[[], T]) -> T:
        """Run code in an inner scope with limits. Record and raise a reached limit, or replay one."""
        branch = current_branch()
        key = branch.next_limit()
        recorded = self.history.reached(key)
        if recorded is not None:
            raise self._replay_limit(scope, key, recorded, code)
        if self.history.is_behind():
            self._has_paused = True
            scope.pause_clock(self.now())
        try:
            return self.within(scope, code)
        except BudgetExceeded as error:
            if error.scope is scope:
                error.step_key = key
                self._record_limit(key, error, scope.used["steps"] if error.is_in_pure_code else None)
            raise

    def attempt(self, code: Callable[[], T]) -> T:
        """Run code for a `try`. Record and raise a timing-dependent failure, or replay a recorded one."""
        branch = current_branch()
        key = branch.next_limit()
        recorded = self.history.reached(key)
        if recorded is not None:
            ended = self._replay_limit(Scope({}, branch.scope), key, recorded, code)
            raise TaskFailed(ended.error, code=ended.problem.code).caused_by(ended)
        try:
            return code()
        except TaskFailed as error:
            if error.is_timing_dependent and not is_outer_budget_error(error):
                self._record_limit(key, error)
            raise

    def _record_limit(self, key: str, error: TaskFailed, used: float | None = None) -> None:
        """Record a limit; `used` is the number of operations if it was reached in pure code, else None."""
        branch = current_branch()
        reached = LimitReached(error.error, error.problem.code, branch.steps, branch.limits, used)
        self.wait(self.history.keep(key, reached))

    def _replay_limit(
        self, scope: Scope, key: str, recorded: LimitReached, code: Callable[[], Any]
    ) -> BudgetExceeded:
        """Evaluate the code as far as its results are recorded, then return the recorded error.

        The code is evaluated because it may assign names that the program uses later.
        """
        branch = current_branch()
        self._yield_to_loop(branch)
        first = branch.steps + 1
        error = recorded.to_error(scope, key)
        scope.replay_limit(error, recorded.used)
        before = branch.replayed_limit
        branch.replayed_limit = ReplayedLimit(recorded.steps, recorded.limits, error)
        self._replaying_limits += 1
        try:
            self.within(scope, code)
        except TaskFailed as found:
            if is_outer_budget_error(found):
                raise
        finally:
            self._replaying_limits -= 1
            branch.replayed_limit = before
        for number in range(first, recorded.steps + 1):
            self._skip_steps(branch, branch.key_of(number))
        branch.steps, branch.limits = recorded.steps, recorded.limits
        return error

    def _skip_steps(self, branch: Branch, key: str) -> None:
        """Skip the recorded steps at and below a key; their usage is counted."""
        for skipped in self.history.pass_over(key):
            branch.scope.count("calls", 1)
            pay(branch.scope, skipped.spender, skipped.usage)

    def each(self, count: int, act: Callable[[int], T]) -> list[T]:
        """Return the values of `act(0)`, `act(1)` ... in order; they wait concurrently. An error stops all.

        A branch evaluates item after item until it must wait; then another branch takes the next item. Code
        without effects needs only one branch. Each item starts with the conversation as it is now. Afterwards
        the conversation has the turns that all items recorded, in the order of the items.
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
                branch.steps = branch.limits = 0
                branch.conversation = before
                values[index] = act(index)
                if branch.conversation is not before:
                    recorded[index] = branch.conversation[len(before) :]

        try:
            self._run_together(work, parent, base)
        except BaseException as error:
            if isinstance(error, TaskFailed):
                error.is_timing_dependent = True
            self._skip_steps(parent, base)
            raise
        for index in sorted(recorded):
            parent.conversation += recorded[index]
        return values

    def _run_together(self, work: Callable[[], None], parent: Branch, base: str) -> None:
        """Start branches until no item is left or too many wait, then wait for them all.

        Raise the error of the first failed item.
        """
        group = BranchGroup()
        try:
            while not group.branches or self._waiting < self.limits.concurrency:
                branch = Branch(work, parent.scope, base, level=parent.level + 1)
                awaited = resume(self.meter, branch, branch.switch)
                if branch.dead:
                    break  # no item is left to start
                self._waiting += 1
                group.add(branch, self.meter, awaited, self._branch_ended)
        except BaseException:
            if group.branches:
                group.discard()
                parent.pause(group)
                item, error = group.first_error()
                if error is not None and item < branch.item:
                    raise error from None
            raise
        if group.branches:
            parent.pause(group)

    def _branch_ended(self) -> None:
        self._waiting -= 1
