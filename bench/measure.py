"""What benchmarks share: the machine they ran on, and taking the best of several runs."""

import asyncio
import os
import platform
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)


def machine() -> str:
    """One line on what the figures were measured on."""
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {datetime.now(UTC).date()}"
    )


async def with_callers(act: Callable[[T], Awaitable[R]], items: Sequence[T], *, callers: int) -> list[R]:
    """The result of the act on each item, with so many concurrent callers that each do one at a time."""
    results: dict[int, R] = {}
    numbers: Iterator[int] = iter(range(len(items)))

    async def caller() -> None:
        for number in numbers:
            results[number] = await act(items[number])

    await asyncio.gather(*(caller() for _ in range(callers)))
    return [results[number] for number in range(len(items))]
