"""Composition root: open the store that the settings name, and create the executors that run programs."""

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
    """Return the executors plus those that run programs and registered templates of this store."""
    programs = TemplateExecutor(
        store,
        new_effects or project_effects,
        clock=clock,
        new_id=new_id,
        concurrency=concurrency,
        models=models,
    )

    async def find_more(methods: Collection[str]) -> list[Executor]:
        """Return an executor for each method that names a registered template of any owner."""
        names = {method: read_name(method).name for method in methods}
        known = await store.known_templates(names.values())
        return [RegisteredExecutor(method, programs) for method, name in names.items() if name in known]

    registry = ExecutorRegistry(executors, find_more=find_more)
    registry.register(programs)
    return registry


def project_effects(program: StoredProgram) -> Effects:
    """Return the default effects of a program: the project's, in the folder of the program."""
    return LocalEffects(model=program.model, folder=program.folder)


async def open_store(
    settings: Settings, *, must_exist: bool = False, clock: Clock | None = None
) -> TaskStore:
    """Open the store that the settings name; create it if missing, or raise StoreNotFound if `must_exist`.

    `clock` replaces the clock of the store (the PostgreSQL server, or this machine with SQLite).
    """
    if is_postgresql(settings.db):
        # Imported here: asyncpg is an optional dependency and slow to import.
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
