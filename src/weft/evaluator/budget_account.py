"""Account of a branch: what its budgets leave for a request, and what requests used."""

from collections.abc import Callable
from typing import Any

from weft.evaluator.budget import MOST, PAID, Scope
from weft.evaluator.effects import Allowance, Reservation
from weft.evaluator.values import is_number


class ScopePurse:
    """Pays out of a scope and those around it, in the name of one spender."""

    __slots__ = ("_scope", "_spender", "is_used")

    def __init__(self, scope: Scope, spender: str) -> None:
        self._scope = scope
        self._spender = spender
        self.is_used = False
        """Whether something was set aside: then what is used is counted by settling it."""

    def left(self) -> Allowance:
        """What may still be spent or set aside; concurrent requests have taken theirs."""
        return Allowance(max(0.0, self._scope.left("tokens")), max(0.0, self._scope.left("cost")))

    async def room(self, is_enough: Callable[[Allowance], bool]) -> None:
        """Wait in line while too little is left and requests under way may free more."""
        if is_enough(self.left()) or not self._is_more_to_come():
            return
        line = self._scope.line()
        async with line.lock:
            while not is_enough(self.left()) and self._is_more_to_come():
                await line.wait_for_change()

    def _is_more_to_come(self) -> bool:
        scope = self._scope
        return any(scope.attainable(resource) > max(0.0, scope.left(resource)) for resource in PAID)

    def reserve(self, tokens: float, cost: float) -> Reservation:
        """Set an amount aside for a turn in every scope; raises BudgetExceeded where it is not left."""
        self.is_used = True
        self._scope.spend("turns", 1)
        amounts = _amounts(tokens, cost)
        self._scope.reserve(amounts)
        return _Reserved(self._scope, self._spender, amounts)


class _Reserved:
    """An amount that was set aside. It is freed once, whatever is called how often."""

    __slots__ = ("_amounts", "_is_open", "_scope", "_spender")

    def __init__(self, scope: Scope, spender: str, amounts: dict[str, float]) -> None:
        self._scope = scope
        self._spender = spender
        self._amounts = amounts
        self._is_open = True

    def settle(self, tokens: float, cost: float) -> None:
        """Count what was really used, and free the rest."""
        if self._is_open:
            self.release()
            self._scope.pay(self._spender, _amounts(tokens, cost))

    def release(self) -> None:
        """Free all of it."""
        if self._is_open:
            self._is_open = False
            self._scope.free(self._amounts)


def _amounts(tokens: float, cost: float) -> dict[str, float]:
    return {"tokens": _countable(tokens), "cost": _countable(cost)}


def _countable(amount: float) -> float:
    """An amount whose sums mean something: not below zero, not infinite, not NaN."""
    return float(min(amount, MOST)) if amount > 0 else 0.0


def pay(scope: Scope, spender: str, usage: Any) -> None:
    """Count what a call took, if that is said; never raises: what is over shows at the next call."""
    if not isinstance(usage, dict):
        return
    tokens = usage.get("tokens")
    if tokens is None:
        tokens = _amount(usage.get("input_tokens")) + _amount(usage.get("output_tokens"))
    scope.pay(spender, {"tokens": _amount(tokens), "cost": _amount(usage.get("cost"))})


def _amount(value: Any) -> float:
    """What was used, if that is said in a way that can be counted: an answer that is paid for is not lost."""
    return min(value, MOST) if is_number(value) and value > 0 else 0
