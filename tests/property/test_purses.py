"""Whatever is asked for at the same time: a budget is kept, and who spent what adds up."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from weft.evaluator.budget import Scope
from weft.evaluator.budget_account import ScopeAccount
from weft.evaluator.errors import BudgetExceeded

AMOUNTS = st.tuples(st.integers(0, 400), st.integers(0, 100))
"""What is set aside, and how many hundredths of it are really used."""

CALLS = st.lists(
    st.tuples(
        st.sampled_from(["plan", "review", "3/1"]),
        AMOUNTS,
        AMOUNTS,
        st.integers(0, 4),
        st.sampled_from(["settle", "release", "both"]),
        st.booleans(),
    ),
    max_size=30,
)


async def spend(scopes: list[Scope], call: Any) -> None:
    name, (tokens, used), (cents, spent), turns, end, is_inner = call
    account = ScopeAccount(scopes[is_inner], name)
    for _ in range(turns):
        await asyncio.sleep(0)
    before = account.left()
    try:
        reservation = account.reserve(tokens, cents / 100)
    except BudgetExceeded:
        assert tokens > before.tokens or cents / 100 > before.cost
        return
    assert tokens <= before.tokens
    assert cents / 100 <= before.cost
    for _ in range(turns):
        await asyncio.sleep(0)
    if end != "release":
        reservation.settle(tokens * used // 100, cents * spent / 10_000)
    if end != "settle":
        reservation.release()
    for scope in scopes:
        for resource in ("tokens", "cost"):
            assert scope.used[resource] + scope.reserved[resource] <= scope.limit_of(resource) + 1e-9


@given(CALLS, st.integers(0, 3000), st.integers(0, 30), st.integers(0, 1500))
def test_no_budget_is_exceeded_while_nobody_uses_more_than_was_set_aside(
    calls: list[Any], tokens: int, dollars: int, inner_tokens: int
) -> None:
    outer = Scope({"tokens": tokens, "cost": dollars})
    inner = Scope({"tokens": inner_tokens}, outer)

    async def all_calls() -> None:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(spend([outer, inner], call))

    asyncio.run(all_calls())

    for scope in (outer, inner):
        for resource in ("tokens", "cost"):
            assert scope.used[resource] <= scope.limit_of(resource) + 1e-9
            assert scope.reserved[resource] == 0
            total = sum(spent[resource] for spent in scope.spenders.values())
            assert abs(total - scope.used[resource]) < 1e-9
    assert outer.used["tokens"] >= inner.used["tokens"]
