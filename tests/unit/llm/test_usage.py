"""Who spent what."""

import pytest

from weft.llm.usage import Entry, Total, UsageLedger


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


def test_a_task_a_subtree_and_the_run(ledger: UsageLedger) -> None:
    assert (ledger.step_total("2/1/1").calls, ledger.step_total("2/1/1").tokens) == (2, 25)
    assert ledger.step_total("2").calls == 0
    assert (ledger.subtree_total("2").calls, ledger.subtree_total("2").tokens) == (3, 55)
    assert ledger.subtree_total("2/1").tokens == 25
    assert ledger.subtree_total("") == ledger.total()
    assert (ledger.total().calls, ledger.total().tokens, ledger.total().cost) == (5, 105, 2.0)
    assert UsageLedger().total() == Total()


def test_what_has_no_price_is_counted_apart(ledger: UsageLedger) -> None:
    assert ledger.total().unpriced == 1


def test_the_tree_is_in_the_order_of_the_steps(ledger: UsageLedger) -> None:
    tree = ledger.by_step()

    assert list(tree) == ["1", "2", "2/1", "2/1/1", "2/10", "2/10/1", "21"]
    assert {key: total.tokens for key, total in tree.items()} == {
        key: ledger.subtree_total(key).tokens for key in tree
    }
    assert ledger.templates() == {"2/1/1": "review"}
