"""What an evaluation may use: limits, scopes that nest, and the meter that counts."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from weft.evaluator.errors import BudgetExceeded, exhausted
from weft.evaluator.results import ResourceExhaustion, TaskFailure
from weft.language.task_fields import BUDGETS

SLICE = 5_000
"""Steps between two looks at the clock: a few milliseconds of pure code."""

MAX_NESTED_SCOPES = 100
"""How deep budgets and timeouts nest: each use is counted in all of them."""

MOST = 10**15
"""Larger amounts of anything are taken for this one: it is never used up, and no sum of them overflows."""


class EvaluationLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one evaluation. How deep non-tail calls may nest is `weft.language.deep.FRAMES`."""

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
    ) -> None:
        self.limits = limits
        self.outer = outer
        self.level: int = 0 if outer is None else outer.level + 1
        if self.level > MAX_NESTED_SCOPES:
            raise exhausted("depth", f"more than {MAX_NESTED_SCOPES} budgets and timeouts inside each other")
        self.used = dict.fromkeys(BUDGETS, 0.0)
        self.seconds = seconds
        own = None if seconds is None else now + seconds
        around: float | None = outer.deadline if outer is not None else None
        self.deadline: float | None = min((at for at in (own, around) if at is not None), default=None)
        self._own_deadline = own

    def chain(self) -> Iterator["Scope"]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def spend(self, resource: str, amount: float) -> None:
        """Count a use here and in every scope around; raises BudgetExceeded, for the outermost if several."""
        over: Scope | None = None
        for scope in self.chain():
            scope.used[resource] += amount
            if scope.used[resource] > scope.limits.get(resource, float("inf")):
                over = scope
        if over is not None:
            raise over.exceeded(resource)

    def left(self, resource: str) -> float:
        """How much may still be used, the scopes around considered."""
        return min(scope.limits.get(resource, float("inf")) - scope.used[resource] for scope in self.chain())

    def exceeded(self, resource: str) -> BudgetExceeded:
        """The error for a budget of this scope."""
        limit = self.limits[resource]
        message = f"more than {limit:g} {resource}: the budget is used up"
        metrics = {"limit": limit, "used": self.used[resource]}
        error = BudgetExceeded(
            ResourceExhaustion(resource=resource, message=message, metrics=metrics),
            code=f"{resource}-exhausted",
        )
        error.scope = self
        return error

    def check_time(self, now: float) -> None:
        """Raise BudgetExceeded when a deadline has passed, for the outermost if several."""
        if self.deadline is not None and now >= self.deadline:
            raise self.late(now)

    def late(self, now: float) -> BudgetExceeded:
        """The error for the outermost deadline that has passed; one has."""
        return [scope for scope in self.chain() if scope.is_late(now)][-1].timed_out()

    def is_late(self, now: float) -> bool:
        """Whether this scope's own deadline has passed."""
        return self._own_deadline is not None and now >= self._own_deadline

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
        self._settle()
        if self.scope.deadline is not None:
            self.scope.check_time(self._now())
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
