"""Composition root: opens the store that the settings name, and creates engines, executors and effects.

The parts are imported when they are needed: a command that only reads tasks loads neither engine nor models.
"""

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from weft.clock import Clock
from weft.config.settings import Settings, is_memory, is_postgresql
from weft.errors import MissingExtra
from weft.ids import NewTaskId
from weft.store.protocol import Owner, TaskStore

if TYPE_CHECKING:
    from weft.app.run_records import RunRecords
    from weft.app.templates import TemplateLibrary
    from weft.effects.local import EffectHooks, LocalEffects
    from weft.engine.engine import Engine
    from weft.engine.limits import EngineLimits
    from weft.engine.scheduler import Scheduler
    from weft.executors.protocol import Executor
    from weft.executors.registry import ExecutorRegistry
    from weft.runs.executor import NewEffects
    from weft.runs.program import StoredProgram


async def open_store(
    settings: Settings, *, must_exist: bool = False, clock: Clock | None = None
) -> TaskStore:
    """Open the store that the settings name; create it if missing, or raise StoreNotFound if `must_exist`.

    `clock` replaces the clock of the store (the PostgreSQL server, or this machine with SQLite).
    """
    if is_postgresql(settings.db):
        try:
            from weft.store.postgresql.connection import Timeouts
            from weft.store.postgresql.store import PostgresqlStore
        except ModuleNotFoundError as error:
            if error.name != "asyncpg":
                raise
            raise MissingExtra(extra="postgresql", purpose="a PostgreSQL store") from error

        timeouts = Timeouts(away_seconds=settings.store.away_seconds)
        return await PostgresqlStore.open(settings.db, must_exist=must_exist, timeouts=timeouts, clock=clock)
    from weft.store.sqlite.store import SqliteStore

    if is_memory(settings.db):
        return await SqliteStore.open_memory(settings.db, must_exist=must_exist, clock=clock)
    return await SqliteStore.open(
        Path(settings.db),
        synchronous=settings.sqlite_synchronous,
        must_exist=must_exist,
        is_shared=settings.store.shared,
        clock=clock,
    )


def project_executors(settings: Settings) -> "ExecutorRegistry":
    """Return the executors of a project: built-in ones, those of `@executor`, and plug-ins."""
    from weft.effects.tools import project_registry

    return project_registry(settings)


def program_executor_summary() -> str:
    """Return the description of the executor that runs programs."""
    from weft.runs.executor import TemplateExecutor

    return TemplateExecutor.summary


def new_engine(
    store: TaskStore,
    executors: "ExecutorRegistry | None",
    settings: Settings,
    limits: "EngineLimits | None",
    *,
    load_executors: "Callable[[], ExecutorRegistry]",
    new_effects: "NewEffects | None",
    hooks: "EffectHooks | None",
    clock: Clock,
    new_id: NewTaskId,
) -> "Engine":
    """Return an engine with these executors, and those that run programs and templates of the store.

    If `executors` is None, they are loaded when a task names one: the run of a program needs none of them.
    """
    from weft.engine.engine import Engine
    from weft.engine.limits import EngineLimits
    from weft.executors.registry import ExecutorRegistry
    from weft.runs.executor import RegisteredExecutor, TemplateExecutor
    from weft.runs.templates import read_name

    limits = limits or EngineLimits(lease_seconds=settings.lease_seconds)
    programs = TemplateExecutor(
        store,
        new_effects or partial(project_effects, settings, hooks),
        clock=clock,
        new_id=new_id,
        concurrency=limits.concurrency,
        models=settings.models,
    )

    async def find_more(methods: Collection[str]) -> "list[Executor]":
        """Return an executor for each method that names one of the project, or a template of any owner."""
        found: list[Executor] = []
        if executors is None:
            loaded = load_executors()
            found = [entry.executor for one in methods if (entry := loaded.find(one)) and entry.executor]
        names = {method: read_name(method).name for method in set(methods) - {one.id for one in found}}
        known = await store.known_templates(names.values())
        return found + [RegisteredExecutor(one, programs) for one, name in names.items() if name in known]

    registry = ExecutorRegistry(executors, find_more=find_more)
    registry.register(programs)
    return Engine(store, registry, limits=limits, secrets=settings.secrets)


def project_effects(
    settings: Settings, hooks: "EffectHooks | None", program: "StoredProgram"
) -> "LocalEffects":
    """Return the effects of a program: the project's, in the folder of the program."""
    from weft.effects.local import EffectHooks

    own = settings if settings.apply_to(program.folder) else None
    return (hooks or EffectHooks()).effects(model=program.model, folder=program.folder, settings=own)


def new_scheduler(store: TaskStore, clock: Clock, new_id: NewTaskId) -> "Scheduler":
    """Return the scheduler of a worker."""
    from weft.engine.scheduler import Scheduler

    return Scheduler(store, clock, new_id=new_id)


def open_library(
    store: TaskStore,
    owner: Owner,
    settings: Settings,
    load_executors: "Callable[[], ExecutorRegistry]",
    clock: Clock,
) -> "TemplateLibrary":
    """Return the task library of the store."""
    from weft.app.templates import TemplateLibrary

    return TemplateLibrary(store, owner, settings, load_executors, clock)


def open_runs(store: TaskStore, settings: Settings) -> "RunRecords":
    """Return the program runs of the store."""
    from weft.app.run_records import RunRecords

    return RunRecords(store, settings.models)
