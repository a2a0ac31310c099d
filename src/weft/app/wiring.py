"""Put the parts together: open the store of the settings, make the executors of programs for it."""

from collections.abc import Collection
from pathlib import Path

from weft.clock import Clock
from weft.config.sections import ModelsSettings
from weft.config.settings import Settings, is_memory, is_postgresql
from weft.effects.local import LocalEffects
from weft.errors import MissingExtra
from weft.evaluator.effects import Effects
from weft.executors.protocol import Executor
from weft.executors.registry import ExecutorRegistry
from weft.ids import NewTaskId
from weft.runs.executor import NewEffects, RegisteredExecutor, TemplateExecutor
from weft.runs.program import StoredProgram
from weft.runs.templates import read_name
from weft.store.protocol import TaskStore


def with_programs(
    executors: ExecutorRegistry,
    store: TaskStore,
    new_effects: NewEffects | None,
    *,
    clock: Clock,
    new_id: NewTaskId,
    concurrency: int,
    models: ModelsSettings,
) -> ExecutorRegistry:
    """The executors, and the one that evaluates programs of this store."""
    programs = TemplateExecutor(
        store,
        new_effects or project_effects,
        clock=clock,
        new_id=new_id,
        concurrency=concurrency,
        models=models,
    )

    async def find_more(methods: Collection[str]) -> list[Executor]:
        """One for each method that is the name of a registered template, whoever registered it and when."""
        names = {method: read_name(method).name for method in methods}
        known = await store.known_templates(names.values())
        return [RegisteredExecutor(method, programs) for method, name in names.items() if name in known]

    registry = ExecutorRegistry(executors, find_more=find_more)
    registry.register(programs)
    return registry


def project_effects(program: StoredProgram) -> Effects:
    """What performs the steps of a program when nobody says otherwise."""
    return LocalEffects(model=program.model, folder=program.folder)


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
