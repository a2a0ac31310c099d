"""What a turn may cost at most, set aside before it is made."""

from math import inf

from msgspec import Struct

from weft.evaluator.errors import TaskFailed
from weft.evaluator.purse import Allowance, Purse, Reservation
from weft.evaluator.results import TaskFailure
from weft.llm.payload import Usage
from weft.llm.protocol import Model

LEAST_OUTPUT = 16
"""An answer of fewer tokens is worth no request: with less left in a budget the request is not made."""

ENOUGH_OUTPUT = 4_096
"""With so much left a request is made at once: few answers are longer. With less it waits for others."""

UNKNOWN_OUTPUT = 16_384
"""How long an answer may get of a model that does not say it, where a budget has to be kept."""

CHARACTERS_PER_TOKEN = 3
"""For what arrived of an answer that was cut: rather too many tokens than too few."""


class Outlay(Struct, frozen=True):
    """An amount that was set aside for a turn."""

    input_tokens: int
    max_tokens: int | None
    """How long the answer may get for the budget's sake; None: there is none."""
    reservation: Reservation

    def settle(self, usage: Usage) -> None:
        """Count what was used."""
        self.reservation.settle(usage.tokens, usage.cost or 0.0)

    def break_off(self, model: Model, partial_text: str | None) -> None:
        """Count what is known to be used by a request that failed: nothing unless an answer had begun."""
        if not partial_text:
            self.reservation.release()
            return
        output = len(partial_text) // CHARACTERS_PER_TOKEN + 1
        self.settle(priced(model, Usage(input_tokens=self.input_tokens, output_tokens=output)))


async def set_aside(model: Model, purse: Purse, input_tokens: int) -> Outlay:
    """Reserve the worst case of a turn; with a budget in force the answer is made to fit what is left.

    Where that is little and requests under way hold more than they will use, it is waited for. Raises
    BudgetExceeded before the request when next to nothing is left, and TaskFailed when the budget is in money
    and nobody knows the price.
    """
    output = _longest_output(model, input_tokens)
    left = purse.left()
    if left.tokens == inf and left.cost == inf:
        return Outlay(input_tokens, None, purse.reserve(input_tokens + output, 0.0))
    enough = min(ENOUGH_OUTPUT, output)
    await purse.room(lambda left: _fits(model, left, input_tokens, enough))
    left = purse.left()
    least = min(LEAST_OUTPUT, output)
    if left.tokens < inf:
        output = max(least, min(output, int(left.tokens) - input_tokens))
    cost = 0.0
    if left.cost < inf:
        output = max(least, _affordable(model, input_tokens, output, left.cost))
        cost = _cost(model, input_tokens, output)
    return Outlay(input_tokens, output, purse.reserve(input_tokens + output, cost))


def _fits(model: Model, left: Allowance, input_tokens: int, output: int) -> bool:
    if input_tokens + output > left.tokens:
        return False
    return left.cost == inf or _cost(model, input_tokens, output) <= left.cost


def priced(model: Model, usage: Usage) -> Usage:
    """The usage with its cost, if that can be known."""
    if usage.cost is not None:
        return usage
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cost=model.price(usage),
        is_estimated=usage.is_estimated,
    )


def _longest_output(model: Model, input_tokens: int) -> int:
    features = model.features
    longest = features.max_output_tokens or UNKNOWN_OUTPUT
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
