"""Group commit: who is told when."""

import asyncio
from collections.abc import Sequence
from typing import Any

from weft.store.group_commit import Done, GroupCommit


async def test_callers_go_on_in_the_order_of_the_commits() -> None:
    """Who sees a later commit knows that everybody was told of the earlier ones."""
    order: list[Any] = []
    first_done: list[Done] = []

    def commit(requests: Sequence[Any], done: Done) -> None:
        if not first_done:
            first_done.append(done)  # ends later, as if in a thread
        else:
            done(requests)

    group = GroupCommit(commit)

    async def write(name: str) -> None:
        order.append(await group.write(name))

    first = asyncio.create_task(write("first"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second = asyncio.create_task(write("second"))
    await asyncio.sleep(0)
    first_done[0](["first"])
    await asyncio.gather(first, second)

    assert order == ["first", "second"]
