"""Who spent what."""

import pytest

from weft.llm.usage import Entry, UsageLedger
from weft.tasks.steps import Usage


def entry(step_key: str, tokens: int, cost: float | None = 0.5, template: str | None = None) -> Entry:
    return Entry(
        step_key=step_key,
        template=template,
        model="test:m",
        input_tokens=tokens - 1,
        output_tokens=1,
        cost=cost,
    )


@pytest.fixture
def ledger() -> UsageLedger:
    made = UsageLedger()
    for one in (
        entry("1", 10),
        entry("2/1/1", 20, template="review"),
        entry("2/10/1", 30),
        entry("2/1/1", 5),
    ):
        made.add(one)
    made.add(entry("21", 40, cost=None))
    return made


def test_the_total_of_a_run(ledger: UsageLedger) -> None:
    assert (ledger.total().turns, ledger.total().tokens, ledger.total().cost) == (5, 105, 2.0)
    assert UsageLedger().total() == Usage()


def test_what_has_no_price_is_counted_apart(ledger: UsageLedger) -> None:
    assert ledger.total().unpriced == 1


def test_the_tree_is_in_the_order_of_the_steps(ledger: UsageLedger) -> None:
    tree = ledger.by_step()

    assert [(key, total.tokens) for key, total in tree.items()] == [
        ("1", 10),
        ("2", 55),
        ("2/1", 25),
        ("2/1/1", 25),
        ("2/10", 30),
        ("2/10/1", 30),
        ("21", 40),
    ]
    assert ledger.templates() == {"2/1/1": "review"}
