"""What a turn may cost at most, set aside before it is made."""

import logging
from math import inf

from msgspec import Struct, structs

from weft.evaluator.effects import Allowance, BudgetAccount, Reservation
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.llm.payload import Usage
from weft.llm.protocol import Model

log = logging.getLogger(__name__)

LEAST_OUTPUT = 16
"""An answer of fewer tokens is worth no request: with less left in a budget the request is not made."""

ENOUGH_OUTPUT = 4_096
"""With so much left a request is made at once: few answers are longer. With less it waits for others."""

UNKNOWN_OUTPUT = 4_096
"""What is set aside for the answer of a model that does not say how long it may get, and the most that such
a model is asked for: those in use allow as much, and many refuse to be asked for more."""

LONG_OUTPUT = 16_384
"""With so much left in a budget such a model is not bound at all: hardly an answer is longer."""

CHARACTERS_PER_TOKEN = 3
"""For what arrived of an answer that was cut: rather too many tokens than too few."""


class TurnReservation(Struct, frozen=True):
    """An amount that was set aside for a turn."""

    input_tokens: int
    max_tokens: int | None
    """How long the answer may get for the budget's sake; None: the budget does not bind."""
    reservation: Reservation

    def settle(self, model: Model, usage: Usage, failed: int = 0) -> Usage:
        """What was used, with its cost, now counted: an answer, and the requests before it that failed."""
        return self._count(model, *[self._unanswered()] * failed, usage)

    def settle_partial(self, model: Model, partial_text: str | None, failed: int) -> Usage:
        """What a turn without an answer is charged for, now counted.

        That is an estimate: the input of every request that was sent and not refused, and what arrived.
        """
        if not partial_text:
            return self._count(model, *[self._unanswered()] * failed)
        output = len(partial_text) // CHARACTERS_PER_TOKEN + 1
        cut = structs.replace(self._unanswered(), output_tokens=output)
        return self._count(model, *[self._unanswered()] * (failed - 1), cut)

    def _unanswered(self) -> Usage:
        return Usage(input_tokens=self.input_tokens, is_estimated=True)

    def _count(self, model: Model, *usages: Usage) -> Usage:
        used = Usage(cost=0.0)
        for usage in usages:
            used = added(used, priced(model, usage))
        if usages:
            self.reservation.settle(used.tokens, used.cost or 0.0)
        else:
            self.reservation.release()
        return used


async def reserve_turn(model: Model, purse: BudgetAccount, input_tokens: int) -> TurnReservation:
    """Reserve the worst case of a turn; where a budget binds the answer is made to fit what is left.

    Where that is little and requests under way hold more than they will use, it is waited for. Raises
    BudgetExceeded before the request when next to nothing is left, and TaskFailed when the budget is in money
    and nobody knows the price.
    """
    output = _longest_output(model, input_tokens, UNKNOWN_OUTPUT)
    left = purse.left()
    if left.tokens == inf and left.cost == inf:
        return TurnReservation(input_tokens, None, purse.reserve(input_tokens + output, 0.0))
    enough = min(ENOUGH_OUTPUT, output)
    await purse.room(lambda left: _fits(model, left, input_tokens, enough))
    left = purse.left()
    is_bound = not _fits(model, left, input_tokens, _longest_output(model, input_tokens, LONG_OUTPUT))
    least = min(LEAST_OUTPUT, output)
    if left.tokens < inf:
        output = max(least, min(output, int(left.tokens) - input_tokens))
    cost = 0.0
    if left.cost < inf:
        output = max(least, _affordable(model, input_tokens, output, left.cost))
        cost = _cost(model, input_tokens, output)
    return TurnReservation(
        input_tokens, output if is_bound else None, purse.reserve(input_tokens + output, cost)
    )


def priced(model: Model, usage: Usage) -> Usage:
    """The usage with its cost, if that can be known.

    A price that cannot be worked out is not known: what was used is paid for, and others wait for the rest.
    """
    if usage.cost is not None:
        return usage
    try:
        return structs.replace(usage, cost=model.price(usage))
    except Exception:
        log.exception("the price of a request to %s cannot be worked out", model.id)
        return usage


def added(one: Usage, other: Usage) -> Usage:
    """The sum; its cost is known when both are."""
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_tokens=one.cache_write_tokens + other.cache_write_tokens,
        cost=None if one.cost is None or other.cost is None else one.cost + other.cost,
        is_estimated=one.is_estimated or other.is_estimated,
    )


def _fits(model: Model, left: Allowance, input_tokens: int, output: int) -> bool:
    if input_tokens + output > left.tokens:
        return False
    return left.cost == inf or _cost(model, input_tokens, output) <= left.cost


def _longest_output(model: Model, input_tokens: int, unknown: int) -> int:
    """How long the answer may get, or what is taken for it where that is not known."""
    features = model.features
    longest = features.max_output_tokens or unknown
    if features.context_window is not None:
        longest = min(longest, features.context_window - input_tokens)
    return max(1, longest)


def _affordable(model: Model, input_tokens: int, output: int, money: float) -> int:
    """How many tokens of output the money is enough for; prices have steps, so it is looked for."""
    if _cost(model, input_tokens, output) <= money:
        return output
    enough, too_much = 0, output
    while too_much - enough > 1:
        middle = (enough + too_much) // 2
        if _cost(model, input_tokens, middle) <= money:
            enough = middle
        else:
            too_much = middle
    return enough


def _cost(model: Model, input_tokens: int, output_tokens: int) -> float:
    cost = model.price(Usage(input_tokens=input_tokens, output_tokens=output_tokens))
    if cost is None:
        message = (
            f"the budget is in money, and no price is known for '{model.id}': give input_price and "
            f'output_price (US dollars per million tokens) in [models.settings."{model.id}"] of weft.toml, '
            "or bound tokens instead"
        )
        raise TaskFailed(TaskFailure("configuration_error", message))
    return cost
