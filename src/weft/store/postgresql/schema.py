"""The schema of a PostgreSQL store: recognised, created, brought up to date."""

import asyncpg

from weft.store.errors import NotAStore, SchemaTooNew, StoreNotFound
from weft.store.queries import load_migrations, load_queries

_SQL = load_queries("postgresql")
KNOWN_VERSION = len(load_migrations("postgresql"))
MIGRATION_SECONDS = 3600.0
"""A migration may write every row of a large store anew."""


async def prepare(connection: asyncpg.Connection, location: str, *, must_exist: bool = False) -> None:
    """Bring the schema to the version this weft knows; refuses tables that are not weft's, or newer."""
    known = load_migrations("postgresql")
    # Looked at before anything is locked: a store that is up to date opens for those who may only read it.
    version = await _version(connection, location)
    if version == len(known):
        return
    if version > len(known):
        raise SchemaTooNew(location=location, found=version, known=len(known))
    if version == 0 and must_exist:
        raise StoreNotFound(location=location)
    await connection.execute(_SQL["begin_write"], timeout=MIGRATION_SECONDS)
    try:
        # Another process may have migrated while we waited for the lock.
        for number in range(await _version(connection, location), len(known)):
            await connection.execute(known[number], timeout=MIGRATION_SECONDS)
            await connection.execute(_SQL["set_schema_version"], number + 1)
        await connection.execute("COMMIT")
    except BaseException:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
        raise


async def _version(connection: asyncpg.Connection, location: str) -> int:
    tables = {row["relname"] for row in await connection.fetch(_SQL["our_tables"])}
    if "weft_schema" in tables:
        return int(await connection.fetchval(_SQL["schema_version"]))
    if tables:
        names = " and ".join(sorted(tables))
        raise NotAStore(
            f"{location} has {names}, but not of weft's; name another schema with ?search_path=schema"
        )
    return 0
