"""Budget account of a branch: reserves budget for requests and counts their usage."""

from collections.abc import Callable
from typing import Any

from weft.evaluator.budget import MAX_AMOUNT, RESERVABLE, Scope
from weft.evaluator.effects import Allowance, BudgetAccount, Reservation
from weft.evaluator.values import is_number


class ScopeAccount(BudgetAccount):
    """Charges a scope and its enclosing scopes, on behalf of one spender."""

    __slots__ = ("_scope", "_spender", "is_used")

    def __init__(self, scope: Scope, spender: str) -> None:
        self._scope = scope
        self._spender = spender
        self.is_used = False
        """Whether `reserve` was called; the usage is then counted when the reservation is settled."""

    def left(self) -> Allowance:
        """Return what is neither used nor reserved, also by concurrent requests."""
        return Allowance(max(0.0, self._scope.left("tokens")), max(0.0, self._scope.left("cost")))

    async def room(self, is_enough: Callable[[Allowance], bool]) -> None:
        """Wait in the queue while too little is left and running requests may release more."""
        if is_enough(self.left()) or not self._may_get_more():
            return
        queue = self._scope.wait_queue()
        async with queue.lock:
            while not is_enough(self.left()) and self._may_get_more():
                await queue.wait_for_change()

    def _may_get_more(self) -> bool:
        scope = self._scope
        return any(scope.attainable(resource) > max(0.0, scope.left(resource)) for resource in RESERVABLE)

    def reserve(self, tokens: float, cost: float) -> Reservation:
        """Reserve an amount for a turn in every scope. Raise BudgetExceeded if it is not available."""
        self.is_used = True
        self._scope.spend("turns", 1)
        amounts = _amounts(tokens, cost)
        self._scope.reserve(amounts)
        return _ScopeReservation(self._scope, self._spender, amounts)


class _ScopeReservation(Reservation):
    """A reserved amount, released at most once."""

    __slots__ = ("_amounts", "_is_open", "_scope", "_spender")

    def __init__(self, scope: Scope, spender: str, amounts: dict[str, float]) -> None:
        self._scope = scope
        self._spender = spender
        self._amounts = amounts
        self._is_open = True

    def settle(self, tokens: float, cost: float) -> None:
        if self._is_open:
            self.release()
            self._scope.pay(self._spender, _amounts(tokens, cost))

    def release(self) -> None:
        if self._is_open:
            self._is_open = False
            self._scope.free(self._amounts)


def _amounts(tokens: float, cost: float) -> dict[str, float]:
    return {"tokens": _to_amount(tokens), "cost": _to_amount(cost)}


def _to_amount(amount: float) -> float:
    """Return an amount that can be added up: not negative, not infinite, not NaN."""
    return float(min(amount, MAX_AMOUNT)) if amount > 0 else 0.0


def pay(scope: Scope, spender: str, usage: Any) -> None:
    """Count the usage of a call, if it is known. Never raise; an exceeded budget shows at the next call."""
    if not isinstance(usage, dict):
        return
    tokens = usage.get("tokens")
    if tokens is None:
        tokens = _reported_amount(usage.get("input_tokens")) + _reported_amount(usage.get("output_tokens"))
    scope.pay(spender, {"tokens": _reported_amount(tokens), "cost": _reported_amount(usage.get("cost"))})


def _reported_amount(value: Any) -> float:
    """Return a reported number, or 0 if it is unusable: a bad report must not lose a paid response."""
    return min(value, MAX_AMOUNT) if is_number(value) and value > 0 else 0
