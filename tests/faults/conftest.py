"""Fixtures of the tests in which the network, the server, the clock or a process fails."""

from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.faults.killable_postgresql import KillablePostgresql
from tests.faults.killable_postgresql import killable_postgresql as running_server
from tests.faults.proxy import Proxy, proxy_to
from tests.postgresql_server import fresh_schema
from weft.store.postgresql.connection import Timeouts
from weft.store.postgresql.store import PostgresqlStore
from weft.store.protocol import TaskStore


@pytest.fixture
def direct_url(postgresql: str) -> str:
    """Return the URL of an empty schema of a real server, without a proxy."""
    return fresh_schema(postgresql)


@pytest.fixture
def proxy(direct_url: str) -> Iterator[Proxy]:
    """Run a proxy to that schema."""
    with proxy_to(direct_url) as running:
        yield running


IMPATIENT = Timeouts(
    connect_seconds=2.0, lock_seconds=1.0, idle_seconds=0.3, command_seconds=1.0, large_seconds=1.0
)


@pytest.fixture
async def impatient(proxy: Proxy) -> AsyncIterator[TaskStore]:
    """Yield an empty store behind the proxy, with short timeouts, for servers that do not respond."""
    opened = await PostgresqlStore.open(proxy.url, timeouts=IMPATIENT)
    yield opened
    await opened.close()


@pytest.fixture
async def admin(direct_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Yield a connection that no fault affects."""
    connection = await asyncpg.connect(direct_url)
    yield connection
    await connection.close()


@pytest.fixture(scope="session")
def killable_server() -> Iterator[KillablePostgresql]:
    """Run a server that tests may kill and start again."""
    with running_server() as server:
        yield server
