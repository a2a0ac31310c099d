"""Limits of an evaluation: nested scopes, the operation meter, and deadlines that count suspended time."""

from collections.abc import Callable, Iterator
from math import inf

from msgspec import Struct

from weft.aio import WaitQueue
from weft.evaluator.errors import BudgetExceeded, exhausted
from weft.evaluator.results import ResourceExhaustion, TaskFailure
from weft.language.task_fields import BUDGETS


class SuspendAwareDeadline:
    """A deadline that counts the time in which the run waited for people, also while it was suspended."""

    __slots__ = ("_is_counting", "_spans", "due")

    def __init__(self, due: float, *, is_enforced_elsewhere: bool = False) -> None:
        """Create a deadline; with `is_enforced_elsewhere` it is inactive until a wait is added.

        `due` is a time of the event loop.
        """
        self.due = due
        self._is_counting = not is_enforced_elsewhere
        self._spans: list[tuple[float, float]] = []
        """Waits for people as (start, end), sorted and without overlap."""

    @property
    def deadline(self) -> float | None:
        """Return when the evaluation must be cancelled; None while the effect enforces the limit itself."""
        return self.due if self._is_counting else None

    def add(self, begun: float, ended: float) -> None:
        """Add a past wait, measured by any clock; overlaps with earlier waits are not counted again."""
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

    def _seconds(self) -> float:
        return sum(end - start for start, end in self._spans)


SLICE_OPERATIONS = 5_000
"""Operations between two checks of the clock: a few milliseconds of pure code."""

MAX_NESTED_SCOPES = 100
"""How deep budgets and timeouts may nest; bounded because every use is counted in all of them."""

RESERVABLE = ("tokens", "cost")
"""Resources that are reserved before they are used, and counted by spender."""

COUNTED = (*BUDGETS, "turns", "subtasks")
"""Resources that a scope counts; turns and subtasks are limited only in chains of subtasks."""

SHOWN_SPENDERS = 3
"""How many spenders an error names, the largest ones."""

MAX_AMOUNT = 10**15
"""Larger amounts are reduced to this one, which is never used up; sums of it do not overflow."""


class EvaluationLimits(Struct, frozen=True, kw_only=True):
    """Limits of one evaluation. The limit for nested non-tail calls is `weft.language.traversal.FRAMES`."""

    operations: int = 10_000_000
    """The budget `steps`: calls, rounds of loops, a fraction of the length of values that are traversed."""
    calls: int = 10_000
    """Requests to models, scripts, tools and memory."""
    tokens: float | None = None
    cost: float | None = None
    seconds: float | None = None
    size: int = 10_000_000
    """Elements of a list or dict, or characters of a string; for the final value, their total."""
    concurrency: int = 1_000
    """Branches that wait at the same time."""
    subtask_depth: int = 5
    """How deep subtasks may nest, if no `max_depth` is set."""
    subtasks: int = 100
    """Subtasks below one task, on all levels together."""
    subtask_turns: int = 200
    """Model turns of all these subtasks together."""
    subtask_seconds: float | None = 3600.0
    """Time from the start of the first of these subtasks to the end of the last."""

    def budgets(self) -> dict[str, float]:
        """Return the limits that a scope counts, by resource."""
        every = {"steps": self.operations, "calls": self.calls, "tokens": self.tokens, "cost": self.cost}
        return {name: limit for name, limit in every.items() if limit is not None}


class Scope:
    """A part of an evaluation with its own budgets; the budgets of enclosing scopes apply too."""

    def __init__(
        self,
        limits: dict[str, float],
        outer: "Scope | None" = None,
        *,
        seconds: float | None = None,
        now: float = 0.0,
        waits: SuspendAwareDeadline | None = None,
    ) -> None:
        """Create a scope. `waits` is its deadline if the time limit counts waits for people."""
        self.limits = limits
        self.outer = outer
        self.level: int = 0 if outer is None else outer.level + 1
        if self.level > MAX_NESTED_SCOPES:
            raise exhausted("depth", f"more than {MAX_NESTED_SCOPES} budgets and timeouts inside each other")
        self.used = dict.fromkeys(COUNTED, 0.0)
        self.reserved = dict.fromkeys(RESERVABLE, 0.0)
        """Amounts that are reserved for running requests."""
        self.reservations = 0
        self._queue: WaitQueue | None = None
        self.spenders: dict[str, dict[str, float]] = {}
        """Tokens and cost by spender: the name of a template, else the key of a step."""
        self.seconds = seconds
        self.waits = waits
        self.has_waits: bool = waits is not None or (outer is not None and outer.has_waits)
        """Whether this scope or an enclosing one has a deadline that counts waits."""
        self.replayed_limit: BudgetExceeded | None = None
        """The recorded error with which this scope ends on replay, or None."""
        self.watchers: set[Callable[[], None]] = set()
        """Called when waits were added, because the deadline may have changed."""
        self._own_deadline = None if seconds is None else now + seconds
        self._paused_at: float | None = None
        self.deadline: float | None = None
        self.find_deadline()

    def chain(self) -> Iterator["Scope"]:
        """Yield this scope and its enclosing scopes, from the inside out."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def spend(self, resource: str, amount: float) -> None:
        """Count a use here and in all enclosing scopes. Raise BudgetExceeded as `check` does."""
        scope: Scope | None = self
        while scope is not None:
            scope.used[resource] += amount
            scope = scope.outer
        self.check(resource)

    def count(self, resource: str, amount: float) -> None:
        """Count a use here and in all enclosing scopes, without a check."""
        for scope in self.chain():
            scope.used[resource] += amount

    def replay_limit(self, error: BudgetExceeded, operations: float | None) -> None:
        """Replay a recorded limit: fail with `error`, after that many operations if given; no deadline."""
        self.replayed_limit = error
        self.seconds = self.waits = self._own_deadline = self._paused_at = None
        self.find_deadline()
        if operations is not None:  # the last operation was counted and not performed
            self.limits = {**self.limits, "steps": operations - 1}

    def raise_replayed_limit(self) -> None:
        """Raise the recorded error of this scope or of an enclosing one, if there is one."""
        scope: Scope | None = self
        while scope is not None:
            if scope.replayed_limit is not None:
                raise scope.replayed_limit
            scope = scope.outer

    def pay(self, spender: str, amounts: dict[str, float]) -> None:
        """Count used tokens and cost. Never raise; an exceeded budget shows at the next `check`."""
        for scope in self.chain():
            spent = scope.spenders.setdefault(spender, dict.fromkeys(RESERVABLE, 0.0))
            for resource in RESERVABLE:
                scope.used[resource] += amounts[resource]
                spent[resource] += amounts[resource]

    def check(self, *resources: str) -> None:
        """Raise BudgetExceeded for the outermost scope with an exceeded budget, if there is one."""
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
        """Reserve tokens and cost in every scope. Raise BudgetExceeded if they are not available."""
        for resource in RESERVABLE:
            short = [scope for scope in self.chain() if amounts[resource] > scope.available(resource)]
            if short:
                raise short[-1].refused(resource, amounts[resource])
        for scope in self.chain():
            scope.reservations += 1
            for resource in RESERVABLE:
                scope.reserved[resource] += amounts[resource]

    def free(self, amounts: dict[str, float]) -> None:
        """Release a reservation."""
        for scope in self.chain():
            scope.reservations -= 1
            for resource in RESERVABLE:
                # Reset to zero when no request is running, because sums of fractions drift.
                remaining = scope.reserved[resource] - amounts[resource] if scope.reservations else 0.0
                scope.reserved[resource] = max(0.0, remaining)
        self.wait_queue().notify()

    def left(self, resource: str) -> float:
        """Return how much may still be used or reserved, here and in all enclosing scopes."""
        return min(scope.available(resource) for scope in self.chain())

    def wait_queue(self) -> WaitQueue:
        """Return the queue of requests that wait for budget; the whole evaluation shares one."""
        if self.outer is not None:
            return self.outer.wait_queue()
        if self._queue is None:
            self._queue = WaitQueue()
        return self._queue

    def attainable(self, resource: str) -> float:
        """Return how much would be left if every reservation were released unused."""
        return min(scope.limit_of(resource) - scope.used[resource] for scope in self.chain())

    def exceeded(self, resource: str) -> BudgetExceeded:
        """Return the error for a used-up budget of this scope."""
        return self._error(resource, f"more than {self.limits[resource]:g} {resource}: the budget is used up")

    def refused(self, resource: str, amount: float) -> BudgetExceeded:
        """Return the error for a request that does not fit into the budget of this scope."""
        limit, used, reserved = self.limits[resource], self.used[resource], self.reserved[resource]
        others = f", {reserved:g} are reserved for running requests" if reserved else ""
        message = (
            f"a request that may take {amount:g} {resource} does not fit the budget: "
            f"{used:g} of {limit:g} are used{others}"
        )
        return self._error(resource, message)

    def _error(self, resource: str, message: str) -> BudgetExceeded:
        metrics = {"limit": float(self.limits[resource]), "used": float(self.used[resource])}
        if resource in RESERVABLE:
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
        """Return the limit of this scope alone; infinite without a limit."""
        return self.limits.get(resource, inf)

    def available(self, resource: str) -> float:
        """Return how much of this scope's limit is neither used nor reserved."""
        return self.limit_of(resource) - self.used[resource] - self.reserved.get(resource, 0.0)

    def late(self, now: float) -> BudgetExceeded:
        """Return the error for the outermost deadline that has passed. At least one must have passed."""
        return [scope for scope in self.chain() if scope.is_late(now)][-1].timed_out()

    def is_late(self, now: float) -> bool:
        is_running = self._paused_at is None
        return is_running and self._own_deadline is not None and now >= self._own_deadline

    def find_deadline(self) -> None:
        """Compute the earliest deadline of this scope and its enclosing scopes."""
        if self.waits is not None:
            self._own_deadline = self.waits.deadline
        own = None if self._paused_at is not None else self._own_deadline
        around = None if self.outer is None else self.outer.deadline
        self.deadline = min((at for at in (own, around) if at is not None), default=None)

    def pause_clock(self, now: float) -> None:
        """Stop the clock of this scope: replayed results take no time."""
        if self.seconds is not None:
            self._paused_at = now
            self.find_deadline()

    def start_clock(self, now: float) -> None:
        """Continue the clocks of this scope and its enclosing scopes, because an effect is performed."""
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
        """Return the earliest deadline that counts waits, here or in an enclosing scope; None without one."""
        return min((scope.waits.due for scope in self.chain() if scope.waits is not None), default=None)

    def count_wait(self, begun: float, ended: float, due: float | None = None) -> None:
        """Add past time, by any clock, in which the run was suspended for a person.

        `due` is the deadline that was stored with the question, as a time of the event loop; the earliest
        deadline must not be later.
        """
        counting = [scope.waits for scope in self.chain() if scope.waits is not None]
        for waits in counting:
            waits.add(begun, ended)
        if counting and due is not None:
            earliest = min(counting, key=lambda waits: waits.due)
            earliest.due = min(earliest.due, due)
        for scope in reversed(tuple(self.chain())):
            scope.find_deadline()
        for watcher in tuple(self.watchers):
            watcher()

    def timed_out(self) -> BudgetExceeded:
        """Return the error for the passed deadline of this scope."""
        message = f"timed out after {self.seconds:g} seconds"
        error = BudgetExceeded(
            TaskFailure(reason="execution_timeout", message=message), code="execution-timeout"
        )
        error.scope = self
        return error


class Meter:
    """Counts operations for the running scope.

    Counting is so frequent that compiled code only decrements `left`, and calls `refill` when it is negative;
    the scopes are charged one slice at a time.
    """

    __slots__ = ("_granted", "_now", "left", "scope", "size")

    def __init__(self, scope: Scope, *, size: int, now: Callable[[], float]) -> None:
        self.scope = scope
        self.size = size
        self._now = now
        self.left = 0
        self._granted = 0
        """Size of the current slice, in operations."""

    def enter(self, scope: Scope) -> None:
        """Count for `scope` from now on."""
        if scope is self.scope:
            return
        self._settle()
        self.scope = scope

    def refill(self) -> None:
        """Charge the used operations and take the next slice. Raise BudgetExceeded."""
        has_run = self._granted > 0
        self._settle()
        deadline = self.scope.deadline
        # Checked only after a whole slice, so that time never ends the short code between two steps: a replay
        # must end at the same operation.
        if has_run and deadline is not None and (now := self._now()) >= deadline:
            error = self.scope.late(now)
            error.is_in_pure_code = True
            raise error
        self._granted = self.left = int(min(SLICE_OPERATIONS, self.scope.left("steps")))

    def count(self, operations: int) -> None:
        """Count several operations at once."""
        self.left -= operations
        if self.left < 0:
            self.refill()

    def check_size(self, size: int) -> None:
        """Raise ProgramError if a value has more elements or characters than allowed."""
        if size > self.size:
            message = f"a value has {size} elements or characters; the limit is {self.size}"
            raise exhausted("size", message, limit=self.size)

    def _settle(self) -> None:
        used = self._granted - self.left
        self._granted = self.left = 0
        if used:
            self.scope.spend("steps", used)
