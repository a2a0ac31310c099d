"""Fixtures of the contract tests."""

from collections.abc import AsyncIterator

import pytest

from tests.engine_bench import Bench
from weft.store.protocol import TaskStore


@pytest.fixture
async def bench(store: TaskStore) -> AsyncIterator[Bench]:
    made = Bench(store)
    yield made
    await made.close()
