"""What may be spent on a request: asked before it is made, so that a budget is not exceeded but kept."""

from collections.abc import Callable
from math import inf
from typing import Protocol

from msgspec import Struct


class Allowance(Struct, frozen=True):
    """What is left, the budgets around considered; infinite without a budget."""

    tokens: float = inf
    cost: float = inf


class Reservation(Protocol):
    """An amount set aside: nobody else can spend it until it is settled or released."""

    def settle(self, tokens: float, cost: float) -> None:
        """Count what was really used, and free the rest. Never raises: what is paid for is not lost."""
        ...

    def release(self) -> None:
        """Free all of it: the request was not made, or nothing is charged for it."""
        ...


class Purse(Protocol):
    """The budgets that a request counts in: of its task, of what is around it, of the run."""

    def left(self) -> Allowance:
        """What may still be spent or set aside."""
        ...

    async def room(self, is_enough: Callable[[Allowance], bool]) -> None:
        """Wait until enough is left, or as much as there can be once requests under way have ended.

        What is set aside is the worst case: most of it is free again soon. At once where that cannot help.
        """
        ...

    def reserve(self, tokens: float, cost: float) -> Reservation:
        """Set an amount aside; raises BudgetExceeded, which says who spent what, when it is not left."""
        ...


class _Free:
    def settle(self, tokens: float, cost: float) -> None: ...

    def release(self) -> None: ...


class Unlimited:
    """A purse without a bottom."""

    def left(self) -> Allowance:
        return Allowance()

    async def room(self, is_enough: Callable[[Allowance], bool]) -> None: ...

    def reserve(self, tokens: float, cost: float) -> Reservation:
        return _Free()


UNLIMITED = Unlimited()
