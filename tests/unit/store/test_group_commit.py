"""Group commit: who is told when."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

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


async def test_a_write_whose_caller_was_cancelled_before_it_began_is_not_written() -> None:
    written: list[Any] = []

    def commit(requests: Sequence[Any], done: Done) -> None:
        written.extend(requests)
        done(requests)

    group = GroupCommit(commit)
    cancelled = asyncio.create_task(group.write("cancelled"))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])

    assert await group.write("next") == "next"
    assert written == ["next"]
    async with asyncio.timeout(20):
        await group.close()


async def test_a_commit_that_is_interrupted_holds_up_nobody() -> None:
    interruptions = [KeyboardInterrupt()]

    def commit(requests: Sequence[Any], done: Done) -> None:
        if interruptions:
            raise interruptions.pop()
        done(requests)

    group = GroupCommit(commit)
    with pytest.raises(KeyboardInterrupt):
        await group.write_together(["interrupted"])

    async with asyncio.timeout(20):
        assert await group.write("next") == "next"
        await group.close()
