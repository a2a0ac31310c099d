"""Prices of requests: from the settings, or from the price list of the genai-prices package."""

from functools import cache
from typing import Any

from msgspec import structs

from weft.config.sections import ModelParameters
from weft.llm.payload import Usage
from weft.llm.providers.access import Access

_MILLION = 1_000_000


class Prices:
    """The prices of one model."""

    def __init__(self, access: Access, model: str, parameters: ModelParameters) -> None:
        self._parameters = parameters
        # A compatible server has prices of its own, which the list may have under the server's address.
        is_original_provider = access.name == access.kind or access.base_url is None
        provider_id = access.kind if is_original_provider else None
        self._provider, self._model = _find_listed(model, provider_id, access.base_url)

    @property
    def context_window(self) -> int | None:
        """Return the context window in tokens, or None if it is unknown."""
        if self._parameters.context_window is not None:
            return self._parameters.context_window
        return None if self._model is None else self._model.context_window

    def price(self, usage: Usage) -> float | None:
        """Return the cost in US dollars; None unless the prices of both input and output are known."""
        given = self._parameters
        if given.input_price is None and given.output_price is None:
            return self._list_price(usage)
        parts = (
            self._cost(structs.replace(usage, output_tokens=0), usage.input_tokens, given.input_price),
            self._cost(Usage(output_tokens=usage.output_tokens), usage.output_tokens, given.output_price),
        )
        return None if None in parts else sum(part for part in parts if part is not None)

    def _cost(self, usage: Usage, tokens: int, price: float | None) -> float | None:
        """Return the cost of the input or the output: by `price` per million tokens; None uses the list."""
        return self._list_price(usage) if price is None else tokens * price / _MILLION

    def _list_price(self, usage: Usage) -> float | None:
        if self._model is None:
            return None
        from genai_prices import Usage as ListedUsage

        cached = min(usage.cache_read_tokens, usage.input_tokens)
        amounts = ListedUsage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=cached or None,
            cache_write_tokens=min(usage.cache_write_tokens, usage.input_tokens - cached) or None,
        )
        try:
            calculated = self._model.calc_price(amounts, self._provider)
        except (LookupError, ValueError):  # the list has no price for this kind of usage
            return None
        return float(calculated.total_price)


@cache
def _find_listed(model: str, provider_id: str | None, url: str | None) -> tuple[Any, Any]:
    """Find provider and model in the price list; return a pair of None if they are not listed."""
    # Imported here, because only requests to providers need it. The list is bundled, not downloaded.
    from genai_prices.data_snapshot import get_snapshot

    try:
        return get_snapshot().find_provider_model(
            model, None, provider_id, None if provider_id is not None else url
        )
    except LookupError:
        return None, None
