"""Limits of an evaluation: nested scopes, a meter, deadlines that run on while a run is suspended."""

from collections.abc import Callable, Iterator
from math import inf

from msgspec import Struct

from weft.aio import WaitQueue
from weft.evaluator.errors import BudgetExceeded, exhausted
from weft.evaluator.results import ResourceExhaustion, TaskFailure
from weft.language.task_fields import BUDGETS


class SuspendAwareDeadline:
    """When a time limit is reached, the waits of the past considered: once, however many waited."""

    __slots__ = ("_is_counting", "_spans", "due")

    def __init__(self, due: float, *, is_bound_elsewhere: bool = False) -> None:
        """`is_bound_elsewhere`: who performs keeps to the limit by himself while there are no waits."""
        self.due = due
        self._is_counting = not is_bound_elsewhere
        self._spans: list[tuple[float, float]] = []
        """From when to when somebody was waited for, in order, without overlap."""

    @property
    def deadline(self) -> float | None:
        """When what is evaluated must be ended; None: it ends by itself."""
        return self.due if self._is_counting else None

    def add(self, begun: float, ended: float) -> None:
        """Count a wait of the past, by any clock, as far as it is not part of others."""
        before = self._seconds()
        spans = sorted([*self._spans, (begun, max(begun, ended))])
        self._spans = spans[:1]
        for start, end in spans[1:]:
            first, last = self._spans[-1]
            if start <= last:
                self._spans[-1] = first, max(end, last)
            else:
                self._spans.append((start, end))
        self.due -= self._seconds() - before
        self._is_counting = True

    def end_by(self, due: float) -> None:
        """Reach the limit then, if not before."""
        self.due = min(self.due, due)

    def _seconds(self) -> float:
        return sum(end - start for start, end in self._spans)


SLICE = 5_000
"""Steps between two looks at the clock: a few milliseconds of pure code."""

MAX_NESTED_SCOPES = 100
"""How deep budgets and timeouts nest: each use is counted in all of them."""

PAID = ("tokens", "cost")
"""What is set aside before it is spent, and kept by who spends it."""

COUNTED = (*BUDGETS, "turns", "subtasks")
"""What a scope counts: turns of models and subtasks are bounded only for chains of subtasks."""

SHOWN_SPENDERS = 3
"""How many spenders an error names: those that took most."""

MOST = 10**15
"""Larger amounts of anything are taken for this one: it is never used up, and no sum of them overflows."""


class EvaluationLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one evaluation. How deep non-tail calls may nest is `weft.language.traversal.FRAMES`."""

    steps: int = 10_000_000
    """Calls and rounds; a built-in that walks a long list counts its length: seconds of pure code."""
    calls: int = 10_000
    """Requests to models, scripts, tools and memory."""
    tokens: float | None = None
    cost: float | None = None
    seconds: float | None = None
    size: int = 10_000_000
    """Elements of a list or dict, characters of a string; of the final value all together."""
    concurrency: int = 1_000
    """Branches that wait at the same time."""
    subtask_depth: int = 5
    """How deep subtasks nest where no `max_depth` says otherwise."""
    subtasks: int = 100
    """Subtasks that are spawned below one task, on all levels together."""
    subtask_turns: int = 200
    """Turns of models in all of them together."""
    subtask_seconds: float | None = 3600.0
    """From the first of them to the end of the last."""

    def budgets(self) -> dict[str, float]:
        """Those that a scope counts."""
        every = {"steps": self.steps, "calls": self.calls, "tokens": self.tokens, "cost": self.cost}
        return {name: limit for name, limit in every.items() if limit is not None}


class Scope:
    """A part of an evaluation with budgets of its own; the scopes around it bound it too."""

    def __init__(
        self,
        limits: dict[str, float],
        outer: "Scope | None" = None,
        *,
        seconds: float | None = None,
        now: float = 0.0,
        waits: SuspendAwareDeadline | None = None,
    ) -> None:
        """`waits` says when the seconds are over if they go on while a person is waited for."""
        self.limits = limits
        self.outer = outer
        self.level: int = 0 if outer is None else outer.level + 1
        if self.level > MAX_NESTED_SCOPES:
            raise exhausted("depth", f"more than {MAX_NESTED_SCOPES} budgets and timeouts inside each other")
        self.used = dict.fromkeys(COUNTED, 0.0)
        self.reserved = dict.fromkeys(PAID, 0.0)
        """What requests under way may still use."""
        self.reservations = 0
        self._line: WaitQueue | None = None
        self.spenders: dict[str, dict[str, float]] = {}
        """Tokens and cost by who spent them: the name of a template, else the key of a step."""
        self.seconds = seconds
        self.waits = waits
        self.has_waits: bool = waits is not None or (outer is not None and outer.has_waits)
        """Whether a time limit counts them, here or around."""
        self.foretold: BudgetExceeded | None = None
        """How it ends, if an evaluation before has come to its limit."""
        self.watchers: set[Callable[[], None]] = set()
        """Called when waits were counted: who waits for the deadline looks at it again."""
        self._own_deadline = None if seconds is None else now + seconds
        self._paused_at: float | None = None
        self.deadline: float | None = None
        self.find_deadline()

    def chain(self) -> Iterator["Scope"]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def spend(self, resource: str, amount: float) -> None:
        """Count a use here and in every scope around; raises BudgetExceeded, for the outermost if several."""
        scope: Scope | None = self
        while scope is not None:
            scope.used[resource] += amount
            scope = scope.outer
        self.check(resource)

    def count(self, resource: str, amount: float) -> None:
        """Count a use here and in every scope around, of something that was allowed before."""
        for scope in self.chain():
            scope.used[resource] += amount

    def replay_limit(self, error: BudgetExceeded, steps: float | None) -> None:
        """Let it end with that error: after so many steps, or where nothing more is known; time is none."""
        self.foretold = error
        self.seconds = self.waits = self._own_deadline = self._paused_at = None
        self.find_deadline()
        if steps is not None:  # the last of them was counted, and not taken any more
            self.limits = {**self.limits, "steps": steps - 1}

    def raise_foretold(self) -> None:
        """Raise the error with which this scope, or one around it, is known to end."""
        scope: Scope | None = self
        while scope is not None:
            if scope.foretold is not None:
                raise scope.foretold
            scope = scope.outer

    def pay(self, spender: str, amounts: dict[str, float]) -> None:
        """Count tokens and cost that were used; never raises: what is over shows at the next `check`."""
        for scope in self.chain():
            spent = scope.spenders.setdefault(spender, dict.fromkeys(PAID, 0.0))
            for resource in PAID:
                scope.used[resource] += amounts[resource]
                spent[resource] += amounts[resource]

    def check(self, *resources: str) -> None:
        """Raise BudgetExceeded when more is used than a budget allows, for the outermost if several."""
        for resource in resources:
            over: Scope | None = None
            scope: Scope | None = self
            while scope is not None:
                if scope.used[resource] > scope.limits.get(resource, inf):
                    over = scope
                scope = scope.outer
            if over is not None:
                raise over.exceeded(resource)

    def reserve(self, amounts: dict[str, float]) -> None:
        """Set tokens and cost aside in every scope; raises BudgetExceeded where they are not left."""
        for resource in PAID:
            short = [scope for scope in self.chain() if amounts[resource] > scope.free_of(resource)]
            if short:
                raise short[-1].refused(resource, amounts[resource])
        for scope in self.chain():
            scope.reservations += 1
            for resource in PAID:
                scope.reserved[resource] += amounts[resource]

    def free(self, amounts: dict[str, float]) -> None:
        """Let go of what was set aside."""
        for scope in self.chain():
            scope.reservations -= 1
            for resource in PAID:
                # From nothing again where nothing is under way: a sum of fractions drifts.
                rest = scope.reserved[resource] - amounts[resource] if scope.reservations else 0.0
                scope.reserved[resource] = max(0.0, rest)
        self.line().notify()

    def left(self, resource: str) -> float:
        """How much may still be used or set aside, the scopes around considered."""
        return min(scope.free_of(resource) for scope in self.chain())

    def line(self) -> WaitQueue:
        """Where requests wait for room: one line for a whole evaluation."""
        if self.outer is not None:
            return self.outer.line()
        if self._line is None:
            self._line = WaitQueue()
        return self._line

    def attainable(self, resource: str) -> float:
        """How much will be left when nothing is set aside any more."""
        return min(scope.limit_of(resource) - scope.used[resource] for scope in self.chain())

    def exceeded(self, resource: str) -> BudgetExceeded:
        """The error for a budget of this scope."""
        return self._error(resource, f"more than {self.limits[resource]:g} {resource}: the budget is used up")

    def refused(self, resource: str, amount: float) -> BudgetExceeded:
        """The error for a request that this scope has too little left for."""
        limit, used, reserved = self.limits[resource], self.used[resource], self.reserved[resource]
        others = f", {reserved:g} are set aside for requests under way" if reserved else ""
        message = (
            f"a request that may take {amount:g} {resource} does not fit the budget: "
            f"{used:g} of {limit:g} are used{others}"
        )
        return self._error(resource, message)

    def _error(self, resource: str, message: str) -> BudgetExceeded:
        metrics = {"limit": float(self.limits[resource]), "used": float(self.used[resource])}
        if resource in PAID:
            metrics["reserved"] = float(self.reserved[resource])
            most = sorted(self.spenders.items(), key=lambda one: (-one[1][resource], one[0]))
            shown = [(name, spent[resource]) for name, spent in most if spent[resource]][:SHOWN_SPENDERS]
            metrics |= {f"spent by {name}": float(amount) for name, amount in shown}
            if shown:
                message += "; most was spent by " + ", ".join(
                    f"{name} ({amount:g})" for name, amount in shown
                )
        error = BudgetExceeded(
            ResourceExhaustion(resource=resource, message=message, metrics=metrics),
            code=f"{resource}-exhausted",
        )
        error.scope = self
        return error

    def limit_of(self, resource: str) -> float:
        """How much this scope allows by itself."""
        return self.limits.get(resource, inf)

    def free_of(self, resource: str) -> float:
        """How much of that is neither used nor set aside."""
        return self.limit_of(resource) - self.used[resource] - self.reserved.get(resource, 0.0)

    def check_time(self, now: float) -> None:
        """Raise BudgetExceeded when a deadline has passed, for the outermost if several."""
        if self.deadline is not None and now >= self.deadline:
            raise self.late(now)

    def late(self, now: float) -> BudgetExceeded:
        """The error for the outermost deadline that has passed; one has."""
        return [scope for scope in self.chain() if scope.is_late(now)][-1].timed_out()

    def is_late(self, now: float) -> bool:
        """Whether this scope's own deadline has passed."""
        is_running = self._paused_at is None
        return is_running and self._own_deadline is not None and now >= self._own_deadline

    def find_deadline(self) -> None:
        """Note when the first time limit is reached, here or around."""
        if self.waits is not None:
            self._own_deadline = self.waits.deadline
        own = None if self._paused_at is not None else self._own_deadline
        around = None if self.outer is None else self.outer.deadline
        self.deadline = min((at for at in (own, around) if at is not None), default=None)

    def pause_clock(self, now: float) -> None:
        """Let its time stand still from now on: answers that are known take none."""
        if self.seconds is not None:
            self._paused_at = now
            self.find_deadline()

    def start_clock(self, now: float) -> None:
        """Let its time go on, here and in the scopes around: something is really performed."""
        if self.outer is not None:
            self.outer.start_clock(now)
        if self._paused_at is not None:
            later = now - self._paused_at
            self._paused_at = None
            if self._own_deadline is not None:
                self._own_deadline += later
            if self.waits is not None:
                self.waits.due += later
        self.find_deadline()

    def due(self) -> float | None:
        """When the first of the time limits that count waits is reached, here or around."""
        return min((scope.waits.due for scope in self.chain() if scope.waits is not None), default=None)

    def count_wait(self, begun: float, ended: float, due: float | None = None) -> None:
        """Count time of the past, by any clock, in which a person was waited for and nothing evaluated.

        `due` is when the first of the limits is reached by what was stored then: that stands.
        """
        counting = [scope.waits for scope in self.chain() if scope.waits is not None]
        for waits in counting:
            waits.add(begun, ended)
        if counting and due is not None:
            min(counting, key=lambda waits: waits.due).end_by(due)
        for scope in reversed(tuple(self.chain())):
            scope.find_deadline()
        for watcher in tuple(self.watchers):
            watcher()

    def timed_out(self) -> BudgetExceeded:
        """The error for the deadline of this scope."""
        message = f"not done after {self.seconds:g} seconds"
        error = BudgetExceeded(
            TaskFailure(reason="execution_timeout", message=message), code="execution-timeout"
        )
        error.scope = self
        return error


class Meter:
    """Counts steps for the scope that runs now.

    Counting is the most frequent thing after reading names. So compiled code only lowers `left`, and calls
    `refill` when it is below zero; a slice at a time is charged to the scopes.
    """

    __slots__ = ("_granted", "_now", "left", "scope", "size")

    def __init__(self, scope: Scope, *, size: int, now: Callable[[], float]) -> None:
        self.scope = scope
        self.size = size
        self._now = now
        self.left = 0
        self._granted = 0

    def enter(self, scope: Scope) -> None:
        """Count for that scope from now on."""
        if scope is self.scope:
            return
        self._settle()
        self.scope = scope

    def refill(self) -> None:
        """Charge what was used and take the next slice; raises when a budget or the time is used up."""
        has_run = self._granted > 0
        self._settle()
        if has_run and self.scope.deadline is not None:
            # Not before a whole slice was used: else chance would end code between one step and the next, and
            # when a run goes on it must end at the same place.
            try:
                self.scope.check_time(self._now())
            except BudgetExceeded as error:
                error.is_of_code = True
                raise
        self._granted = self.left = int(min(SLICE, self.scope.left("steps")))

    def count(self, steps: int) -> None:
        """Count steps of something that takes longer than a call."""
        self.left -= steps
        if self.left < 0:
            self.refill()

    def check_size(self, size: int) -> None:
        """Raise ProgramError when a value has more elements or characters than are allowed."""
        if size > self.size:
            message = f"a value of {size} elements or characters; the most is {self.size}"
            raise exhausted("size", message, limit=self.size)

    def _settle(self) -> None:
        used = self._granted - self.left
        self._granted = self.left = 0
        if used:
            self.scope.spend("steps", used)
