"""What calls took, as their results and failures say it."""

from typing import Any

from weft.evaluator.budget import MOST, Scope
from weft.evaluator.values import is_number


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
