"""One evaluation under way: its branches, and how compiled code waits.

Compiled code is plain functions, so that pure code costs no await. It runs in greenlets; `wait` switches to
the event loop until an awaitable is done. A branch is a greenlet with step keys of its own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from weft.errors import WeftError, unexpected
from weft.evaluator.branches import Branch, ReplayedLimit, current_branch, is_of_outer_scope
from weft.evaluator.budget import EvaluationLimits, Meter, Scope
from weft.evaluator.budget_account import pay
from weft.evaluator.effects import Effects, Turn
from weft.evaluator.errors import BudgetExceeded, TaskFailed, exhausted
from weft.evaluator.joins import (
    Awaited,
    BranchGroup,
    Effect,
    SuspendedBranch,
    evaluating,
    resume,
    scope_around,
)
from weft.evaluator.replay_log import History, LimitReached, NoHistory
from weft.evaluator.resolved import Resolved, give_up

T = TypeVar("T")

MAX_NESTED_BRANCHES = 500
"""How deep `map` in `map` in `map` goes. A branch that begins inside another takes room on the C stack."""

KNOWN_IN_A_ROW = 200
"""After so many steps whose outcome is known the event loop gets a turn: others are at work in it too."""


class Machine:
    """What compiled code needs at run time."""

    def __init__(
        self, effects: Effects, *, limits: EvaluationLimits | None = None, history: History | None = None
    ) -> None:
        self.effects = effects
        self.limits = limits or EvaluationLimits()
        self.history = history or NoHistory()
        self.meter = Meter(Scope({}), size=self.limits.size, now=self.now)
        self._waiting = 0
        self._known = 0
        """Steps since something was waited for."""
        self._has_paused = False
        """Whether the clocks of scopes stand still until something is really performed in them."""
        self._foretold = 0
        """Scopes under way of which it is known that a limit ends them."""

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
        branch = Branch(code, scope or scope_around() or self.new_scope(), prefix)
        with evaluating():
            found = resume(self.meter, branch, branch.switch)
            return cast(T, found if branch.dead else await self._drive(branch, found))

    async def _drive(self, branch: Branch, awaited: Awaited) -> Any:
        """The value of a branch that waits. A cancellation is handed on; the branch ends even so."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def end(_: SuspendedBranch) -> None:
            if not ended.done():
                ended.set_result(None)

        strand = SuspendedBranch(branch, self.meter, awaited, end)
        while not strand.is_ended:
            try:
                await ended
            except asyncio.CancelledError as cancellation:
                ended = loop.create_future()
                strand.stop(*cancellation.args)
        if strand.error is not None:
            raise strand.error
        return strand.value

    def wait(self, answer: Awaitable[T], *, composite: str | None = None) -> T:
        """The answer of an effect; everything else goes on meanwhile. Only for code inside `run`.

        Where it is known that a limit was reached, nothing is begun any more; but a composite, whose key is
        told, may hold answers that are known.
        """
        branch = current_branch()
        if isinstance(answer, Resolved):
            return cast(T, answer.value)
        self._known = 0
        if self._foretold and (composite is None or not self.history.is_known(composite)):
            try:
                branch.scope.raise_foretold()
            except BudgetExceeded:
                give_up(answer)
                raise
        if self._has_paused and composite is None:
            branch.scope.start_clock(self.now())
        effect = Effect(answer, branch)
        try:
            return cast(T, branch.pause(effect))
        except WeftError:
            raise
        except Exception as error:  # here, for further out it would look like a mistake of the program
            raise unexpected(error, what="an effect failed") from error

    def next_key(self) -> str:
        """The key of the step that the running branch takes now."""
        branch = current_branch()
        self._breathe(branch)
        return branch.next_key()

    def _breathe(self, branch: Branch) -> None:
        """Give the event loop a turn now and then, also where nothing is waited for: others work in it."""
        self._known += 1
        if self._known >= KNOWN_IN_A_ROW:
            self._known = 0
            branch.pause(Effect(asyncio.sleep(0), branch))

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

    def bounded(self, scope: Scope, code: Callable[[], T]) -> T:
        """As `within`, of a scope with limits. That one was reached is kept before anything goes on."""
        branch = current_branch()
        key = branch.next_limit()
        known = self.history.reached(key)
        if known is not None:
            raise self._ended_again(scope, key, known, code)
        if self.history.is_behind():
            self._has_paused = True
            scope.pause_clock(self.now())
        try:
            return self.within(scope, code)
        except BudgetExceeded as error:
            if error.scope is scope:
                error.step_key = key
                self._keep(key, error, scope.used["steps"] if error.is_of_code else None)
            raise

    def attempt(self, code: Callable[[], T]) -> T:
        """The value of code whose failures are caught. One that was a matter of time is kept."""
        branch = current_branch()
        key = branch.next_limit()
        known = self.history.reached(key)
        if known is not None:
            ended = self._ended_again(Scope({}, branch.scope), key, known, code)
            raise TaskFailed(ended.error, code=ended.problem.code).caused_by(ended)
        try:
            return code()
        except TaskFailed as error:
            if error.is_raced and not is_of_outer_scope(error):
                self._keep(key, error)
            raise

    def _keep(self, key: str, error: TaskFailed, used: float | None = None) -> None:
        branch = current_branch()
        reached = LimitReached(error.error, error.problem.code, branch.steps, branch.limits, used)
        self.wait(self.history.keep(key, reached))

    def _ended_again(
        self, scope: Scope, key: str, known: LimitReached, code: Callable[[], Any]
    ) -> BudgetExceeded:
        """The error of code, evaluated only as far as the answers are known: what it sets is set again."""
        branch = current_branch()
        self._breathe(branch)
        first = branch.steps + 1
        error = known.again(scope, key)
        scope.replay_limit(error, known.used)
        before, branch.foretold = branch.foretold, ReplayedLimit(known.steps, known.limits, error)
        self._foretold += 1
        try:
            self.within(scope, code)
        except TaskFailed as found:
            if is_of_outer_scope(found):
                raise
        finally:
            self._foretold -= 1
            branch.foretold = before
        for number in range(first, known.steps + 1):
            self._pass_over(branch, branch.key_of(number))
        branch.steps, branch.limits = known.steps, known.limits
        return error

    def _pass_over(self, branch: Branch, key: str) -> None:
        """Ask for nothing of what was asked for below a key; what it took counts."""
        for passed in self.history.pass_over(key):
            branch.scope.count("calls", 1)
            pay(branch.scope, passed.spender, passed.usage)

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
                branch.steps = branch.limits = 0
                branch.conversation = before
                values[index] = act(index)
                if branch.conversation is not before:
                    recorded[index] = branch.conversation[len(before) :]

        try:
            self._run_together(work, parent, base)
        except BaseException as error:
            if isinstance(error, TaskFailed):
                error.is_raced = True
            self._pass_over(parent, base)
            raise
        for index in sorted(recorded):
            parent.conversation += recorded[index]
        return values

    def _run_together(self, work: Callable[[], None], parent: Branch, base: str) -> None:
        """Run as many branches as wait, until there is no work left; raises the error of the first item."""
        join = BranchGroup()
        try:
            while not join.strands or self._waiting < self.limits.concurrency:
                branch = Branch(work, parent.scope, base, level=parent.level + 1)
                awaited = resume(self.meter, branch, branch.switch)
                if branch.dead:
                    break  # nothing is left to begin
                self._waiting += 1
                join.add(branch, self.meter, awaited, self._ended)
        except BaseException:
            if join.strands:
                join.give_up()
                parent.pause(join)
                item, error = join.first_error()
                if error is not None and item < branch.item:
                    raise error from None
            raise
        if join.strands:
            parent.pause(join)

    def _ended(self) -> None:
        self._waiting -= 1
