"""Prices: from the list that comes along, and from settings."""

from typing import Any

import pytest

from weft.config.sections import ModelParameters, ProviderSettings
from weft.llm.payload import Usage
from weft.llm.providers.access import Access
from weft.llm.providers.prices import Prices

MILLION = Usage(input_tokens=1_000_000, output_tokens=1_000_000)


def prices(model: str, *, base_url: str | None = None, name: str = "openai", **given: float) -> Prices:
    access = Access(
        name=name, kind="openai", base_url=base_url, key=None, key_variable=None, settings=ProviderSettings()
    )
    return Prices(access, model, ModelParameters(**given))  # type: ignore[arg-type]


def test_a_known_model_has_the_price_of_the_list() -> None:
    found = prices("gpt-4o-mini")

    assert found.price(Usage(input_tokens=1_000_000)) == pytest.approx(0.15)
    assert found.price(MILLION) == pytest.approx(0.75)
    assert found.context_window == 128_000


def test_tokens_that_the_provider_had_cached_are_cheaper() -> None:
    found = prices("gpt-4o-mini")

    cached = found.price(Usage(input_tokens=1_000_000, cache_read_tokens=1_000_000))

    assert cached == pytest.approx(0.075)


def test_an_unknown_model_has_no_price_and_no_window() -> None:
    found = prices("nobody-knows-it")

    assert found.price(MILLION) is None
    assert found.context_window is None


def test_a_server_of_somebody_else_has_not_the_prices_of_the_provider() -> None:
    assert prices("gpt-4o-mini", name="mine", base_url="http://127.0.0.1:1/v1").price(MILLION) is None


def test_settings_win_over_the_list() -> None:
    found = prices("gpt-4o-mini", input_price=1.0, output_price=2.0, context_window=4_000)

    assert found.price(MILLION) == pytest.approx(3.0)
    assert found.context_window == 4_000


def test_settings_may_say_one_price_only() -> None:
    assert prices("gpt-4o-mini", input_price=1.0).price(MILLION) == pytest.approx(1.6)
    assert prices("gpt-4o-mini", output_price=1.0).price(
        Usage(input_tokens=1_000_000, cache_read_tokens=1_000_000)
    ) == pytest.approx(0.075)


@pytest.mark.parametrize("given", [{"input_price": 3.0}, {"output_price": 3.0}])
def test_one_price_of_a_model_that_is_not_listed_is_no_price(given: dict[str, Any]) -> None:
    assert prices("nobody-knows-it", **given).price(MILLION) is None
