"""Opening the store that settings name."""

from pathlib import Path

from weft.clock import Clock
from weft.errors import MissingExtra
from weft.settings import Settings, is_memory, is_postgresql
from weft.store.protocol import TaskStore


async def open_store(
    settings: Settings, *, must_exist: bool = False, clock: Clock | None = None
) -> TaskStore:
    """Open the store that the settings name; if it is not there it is made, or StoreNotFound raised.

    `clock` replaces the store's own: the server's of PostgreSQL, the machine's of SQLite.
    """
    if is_postgresql(settings.db):
        # Imported here: asyncpg is an extra, and costs every other command its import time.
        try:
            from weft.store.postgresql.connection import Timeouts
            from weft.store.postgresql.store import PostgresqlStore
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            raise MissingExtra(extra="postgresql", purpose="a PostgreSQL store") from error

        timeouts = Timeouts(away_seconds=settings.away_seconds)
        return await PostgresqlStore.open(settings.db, must_exist=must_exist, timeouts=timeouts, clock=clock)
    from weft.store.sqlite.store import SqliteStore

    if is_memory(settings.db):
        return await SqliteStore.open_memory(settings.db, must_exist=must_exist, clock=clock)
    return await SqliteStore.open(
        Path(settings.db),
        synchronous=settings.sqlite_synchronous,
        must_exist=must_exist,
        is_shared=settings.is_shared,
        clock=clock,
    )
