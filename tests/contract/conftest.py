"""Fixtures of the contract tests."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.engine_bench import Bench
from tests.postgresql_server import fresh_schema
from weft.store.protocol import TaskStore


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where an empty store can be opened: in a SQLite file, in memory, and in a real PostgreSQL."""
    if request.param == "sqlite":
        return str(tmp_path / "weft.db")
    if request.param == "memory":
        return f":memory:{uuid.uuid4()}"
    return fresh_schema(request.getfixturevalue("postgresql"))


@pytest.fixture
async def bench(store: TaskStore) -> AsyncIterator[Bench]:
    made = Bench(store)
    yield made
    await made.close()
