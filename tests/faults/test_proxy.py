"""The faulty proxy and the killable server themselves: each fault does what its name says."""

import asyncio

import asyncpg
import pytest

from tests.faults.killable_postgresql import KillablePostgresql
from tests.faults.proxy import Proxy

LOST = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError)


async def numbers(admin: asyncpg.Connection) -> list[int]:
    return [row[0] for row in await admin.fetch("SELECT n FROM numbers ORDER BY n")]


async def insert(connection: asyncpg.Connection, number: int) -> None:
    async with connection.transaction():
        await connection.execute("INSERT INTO numbers VALUES ($1, $2)", number, f"number {number}")


@pytest.fixture
async def table(admin: asyncpg.Connection) -> None:
    await admin.execute("CREATE TABLE numbers (n int, word text)")


@pytest.mark.usefixtures("table")
async def test_the_reply_to_the_wanted_commit_is_lost_and_its_rows_are_there(
    proxy: Proxy, admin: asyncpg.Connection
) -> None:
    proxy.lose_commits(containing=b"number 2")
    connection = await asyncpg.connect(proxy.url)
    await insert(connection, 1)
    with pytest.raises(LOST):
        await insert(connection, 2)

    assert await numbers(admin) == [1, 2]
    assert (proxy.commits, proxy.lost_commits) == (2, 1)


@pytest.mark.usefixtures("table")
async def test_a_swallowed_reply_leaves_the_client_waiting(proxy: Proxy, admin: asyncpg.Connection) -> None:
    proxy.lose_commits(after=1, then="silence")
    connection = await asyncpg.connect(proxy.url)
    await insert(connection, 1)
    with pytest.raises(TimeoutError):
        await connection.execute("BEGIN; INSERT INTO numbers VALUES (2, ''); COMMIT", timeout=0.2)

    assert await numbers(admin) == [1, 2]


async def test_a_reset_ends_connections_and_new_ones_work(proxy: Proxy) -> None:
    connection = await asyncpg.connect(proxy.url)
    proxy.reset()
    with pytest.raises(LOST):
        await connection.execute("SELECT 1")

    again = await asyncpg.connect(proxy.url)
    assert await again.fetchval("SELECT 1") == 1
    await again.close()


async def test_refused_connections_work_when_healed(proxy: Proxy) -> None:
    proxy.refuse()
    with pytest.raises(LOST):
        await asyncpg.connect(proxy.url)
    proxy.heal()

    await (await asyncpg.connect(proxy.url)).close()


@pytest.mark.usefixtures("table")
async def test_of_a_blackhole_in_one_direction_the_other_one_passes(
    proxy: Proxy, admin: asyncpg.Connection
) -> None:
    connection = await asyncpg.connect(proxy.url)
    proxy.blackhole("to_client")
    waiting = asyncio.create_task(connection.execute("INSERT INTO numbers VALUES (1, '')"))
    while await numbers(admin) != [1]:
        pass

    assert not waiting.done()
    proxy.heal()
    assert await asyncio.wait_for(waiting, 10) == "INSERT 0 1"
    await connection.close()


async def test_a_half_closed_connection_ends_for_the_client(proxy: Proxy) -> None:
    connection = await asyncpg.connect(proxy.url)
    proxy.half_close("to_client")

    with pytest.raises(LOST):
        await connection.execute("SELECT 1")


async def test_a_killed_server_comes_back_with_what_was_committed(
    killable_server: KillablePostgresql,
) -> None:
    connection = await asyncpg.connect(killable_server.url)
    await connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    killable_server.kill()
    with pytest.raises(LOST):
        await connection.execute("SELECT 1")
    killable_server.start()

    again = await asyncpg.connect(killable_server.url)
    assert await again.fetchval("SELECT n FROM kept") == 1
    await again.execute("DROP TABLE kept")
    await again.close()
