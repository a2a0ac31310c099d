"""Reserves the worst-case tokens and cost of a model request against the budget, and settles them."""

import logging
from bisect import bisect_right
from math import inf

from msgspec import Struct, structs

from weft.evaluator.effects import Allowance, BudgetAccount, Reservation
from weft.evaluator.errors import TaskFailed
from weft.evaluator.results import TaskFailure
from weft.llm.payload import Usage
from weft.llm.protocol import Model

log = logging.getLogger(__name__)

LEAST_OUTPUT = 16
"""Shortest useful response: a request is not made if the budget has fewer output tokens left."""

ENOUGH_OUTPUT = 4_096
"""A request is made at once if the budget has this many output tokens left, because few responses are longer.
Otherwise it waits for running requests to settle."""

UNKNOWN_OUTPUT = 4_096
"""Output reserved for a model with unknown `max_output_tokens`, and the most that is requested of it: common
models allow this much, and many reject a request for more."""

LONG_OUTPUT = 16_384
"""For a model with unknown `max_output_tokens`: if the budget has this many output tokens left, the request
has no `max_tokens`, because hardly any response is longer."""

CHARACTERS_PER_TOKEN = 3
"""For the tokens of a response that was cut; a low number, so that the estimate is rather too high."""


class TurnReservation(Struct, frozen=True):
    """The reservation of one turn."""

    input_tokens: int
    max_tokens: int | None
    """Most output tokens that the budget allows; None if the request needs no `max_tokens`."""
    reservation: Reservation

    def settle(self, model: Model, usage: Usage, failed: int = 0) -> Usage:
        """Charge a response and the `failed` requests before it; return their total usage and cost."""
        return self._settle(model, *[self._input_only()] * failed, usage)

    def settle_partial(self, model: Model, partial_text: str | None, failed: int) -> Usage:
        """Charge a turn without a complete response; return the estimated usage with its cost.

        `failed` is the number of requests that were sent and not refused. The estimate is the input of each,
        plus the received text. If `failed` is 0 and there is no text, the reservation is released.
        """
        if not partial_text:
            return self._settle(model, *[self._input_only()] * failed)
        output = len(partial_text) // CHARACTERS_PER_TOKEN + 1
        cut = structs.replace(self._input_only(), output_tokens=output)
        return self._settle(model, *[self._input_only()] * (failed - 1), cut)

    def _input_only(self) -> Usage:
        return Usage(input_tokens=self.input_tokens, is_estimated=True)

    def _settle(self, model: Model, *usages: Usage) -> Usage:
        used = Usage(cost=0.0)
        for usage in usages:
            used = add_usage(used, with_cost(model, usage))
        if usages:
            self.reservation.settle(used.tokens, used.cost or 0.0)
        else:
            self.reservation.release()
        return used


async def reserve_turn(model: Model, account: BudgetAccount, input_tokens: int) -> TurnReservation:
    """Reserve the worst case of a turn, with the response limited to what the budget has left.

    If less than `ENOUGH_OUTPUT` is left, wait for running requests to settle, because they reserve more than
    they use. Raise BudgetExceeded if less than `LEAST_OUTPUT` is left, and TaskFailed if the budget limits
    cost and the price is unknown.
    """
    output = _longest_output(model, input_tokens, UNKNOWN_OUTPUT)
    left = account.left()
    if left.tokens == inf and left.cost == inf:
        return TurnReservation(input_tokens, None, account.reserve(input_tokens + output, 0.0))
    enough = min(ENOUGH_OUTPUT, output)
    await account.room(lambda left: _fits(model, left, input_tokens, enough))
    left = account.left()
    is_bound = not _fits(model, left, input_tokens, _longest_output(model, input_tokens, LONG_OUTPUT))
    least = min(LEAST_OUTPUT, output)
    if left.tokens < inf:
        output = max(least, min(output, int(left.tokens) - input_tokens))
    cost = 0.0
    if left.cost < inf:
        output = max(least, _affordable_output(model, input_tokens, output, left.cost))
        cost = _cost(model, input_tokens, output)
    return TurnReservation(
        input_tokens, output if is_bound else None, account.reserve(input_tokens + output, cost)
    )


def with_cost(model: Model, usage: Usage) -> Usage:
    """Return the usage with its cost, which stays None if the price is unknown.

    An error of `model.price` is logged and not raised: the reservation must be settled in any case, because
    other requests wait for it.
    """
    if usage.cost is not None:
        return usage
    try:
        return structs.replace(usage, cost=model.price(usage))
    except Exception:
        log.exception("cannot compute the price of a request to %s", model.id)
        return usage


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum; its cost is unknown (None) if one of the costs is unknown."""
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
    """Return the maximum output tokens of a response; `unknown` if the model does not declare them."""
    features = model.features
    longest = features.max_output_tokens or unknown
    if features.context_window is not None:
        longest = min(longest, features.context_window - input_tokens)
    return max(1, longest)


def _affordable_output(model: Model, input_tokens: int, output: int, money: float) -> int:
    """Return how many output tokens `money` pays for: a binary search, because prices can have tiers."""
    return bisect_right(range(1, output + 1), money, key=lambda tokens: _cost(model, input_tokens, tokens))


def _cost(model: Model, input_tokens: int, output_tokens: int) -> float:
    cost = model.price(Usage(input_tokens=input_tokens, output_tokens=output_tokens))
    if cost is None:
        message = (
            f"the budget limits cost, but no price is known for '{model.id}': set input_price and "
            f'output_price (US dollars per million tokens) in [models.settings."{model.id}"] of weft.toml, '
            "or limit tokens instead"
        )
        raise TaskFailed(TaskFailure("configuration_error", message))
    return cost
