"""Writes that are held up inside their transactions, where they hold the writer lock."""

import asyncio

import asyncpg

from tests.contract.test_postgresql import waiting_for


async def hold_up_writes(admin: asyncpg.Connection) -> None:
    """Let every write wait at its end, inside its transaction; `ROLLBACK` ends that."""
    await admin.execute("BEGIN")
    await admin.execute("LOCK TABLE events IN SHARE MODE")


async def until_it_waits_for(admin: asyncpg.Connection, url: str) -> None:
    """Wait until somebody waits for this connection."""
    watcher = await asyncpg.connect(url)
    async with asyncio.timeout(30):
        while not await waiting_for(admin, watcher):
            pass
    await watcher.close()
