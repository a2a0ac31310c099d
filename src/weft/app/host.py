"""The open store of a process, and the engine that runs tasks of it."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec import structs

from weft.app import wiring
from weft.clock import Clock
from weft.config.settings import Settings, load_settings
from weft.engine.limits import EngineLimits as EngineLimits
from weft.ids import NewTaskId, TaskId, new_task_id
from weft.store.errors import StoreNotFound as StoreNotFound
from weft.store.protocol import EVERYONE, Owner, TaskStore

if TYPE_CHECKING:
    from weft.effects.local import EffectHooks
    from weft.engine.engine import Engine
    from weft.executors.registry import ExecutorRegistry
    from weft.runs.executor import NewEffects

OPENING_SECONDS = 2.0
"""How long `stop` waits for an engine that is starting."""


class EngineHost:
    """An open store, used on behalf of one owner, and an engine that is started on first use."""

    def __init__(
        self,
        store: TaskStore,
        *,
        settings: Settings,
        owner: Owner = EVERYONE,
        clock: Clock | None = None,
        new_id: NewTaskId = new_task_id,
        limits: EngineLimits | None = None,
        executors: "ExecutorRegistry | None" = None,
        new_effects: "NewEffects | None" = None,
        hooks: "EffectHooks | None" = None,
    ) -> None:
        """Initialize; `new_effects` creates the effects of programs; default: the project's, with `hooks`."""
        self.store = store
        self.settings = settings
        self.owner = owner
        self._clock = clock or store.clock
        self._new_id = new_id
        self._limits = limits
        self._executors = executors
        self._new_effects = new_effects
        self._hooks = hooks
        self.has_project_effects = new_effects is None
        self._engine: Engine | None = None
        self._is_stopped = False
        self._opening_engine = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        db: str | Path | None = None,
        *,
        user_id: str | None = None,
        settings: Settings | None = None,
        must_exist: bool = False,
        limits: EngineLimits | None = None,
        **options: Any,
    ) -> Self:
        """Open a store: a path, a `postgresql://` URL, `:memory:`, or by default the project's store.

        A missing store is created; with `must_exist`, StoreNotFound is raised instead. `settings` replace
        those of the environment and of `weft.toml`. For the other options see `__init__`.
        """
        settings = settings or load_settings(db=None if db is None else str(db), user_id=user_id)
        owner = EVERYONE if settings.user_id is None else Owner(settings.user_id)
        store = await wiring.open_store(settings, must_exist=must_exist)
        if limits is not None:
            seconds = limits.lease_seconds or settings.lease_seconds
            limits = structs.replace(limits, lease_seconds=seconds)
        return cls(store, settings=settings, owner=owner, limits=limits, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self, *, grace_seconds: float | None = None) -> None:
        """Stop the engine, if there is one, finish pending writes and close the store."""
        await self.stop(grace_seconds=grace_seconds)
        await self.store.close()

    async def wait(self, root_id: TaskId) -> None:
        """Run tasks of a started flow until it ends or `stop` is called.

        Returns at once if `stop` was called after the flow was started.
        """
        engine = await self.engine()
        if not self._is_stopped:
            await engine.follow(root_id)
            await self.store.check()  # if the store's file was deleted meanwhile, the results are lost

    async def serve(self) -> None:
        """Run all started flows, and fire schedules, until the engine is stopped.

        If the engine or the scheduler fails, stops both and raises the error.
        """
        self._is_stopped = False
        engine = await self.engine()
        if self._is_stopped:
            return
        scheduler = wiring.new_scheduler(self.store, self._clock, self._new_id)
        parts = [asyncio.create_task(engine.serve()), asyncio.create_task(scheduler.run())]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            await asyncio.wait(parts)
        for part in ended:
            await part

    async def stop(self, *, grace_seconds: float | None = None) -> None:
        """Stop running tasks in this process; tasks unfinished after the grace time are released.

        The next `run`, `begin` or `serve` waits until the stopped engine has ended, then starts a new one.
        """
        self._is_stopped = True
        try:
            async with asyncio.timeout(OPENING_SECONDS), self._opening_engine:
                pass
        except TimeoutError:  # the engine waits for an unavailable store
            self.store.stop_waiting()
        async with self._opening_engine:
            engine = self._engine
        if engine is not None:
            await engine.stop(grace_seconds=grace_seconds)

    async def engine(self) -> "Engine":
        """Return the engine of this process; start one on first use, or if the last one has ended.

        After `stop`, the stopped engine is returned until the next `run`, `begin` or `serve`.
        """
        while True:
            async with self._opening_engine:
                if self._engine is None or not (self._engine.is_running or self._is_stopped):
                    self._engine = await self._new_engine().__aenter__()
                engine = self._engine
            if self._is_stopped or not engine.is_stopping:
                return engine
            await engine.ended()

    @property
    def executors(self) -> "ExecutorRegistry":
        """Return the executors of this process."""
        return self.load_executors()

    def load_executors(self) -> "ExecutorRegistry":
        """Load the executors of the project, unless they are loaded or were passed in."""
        if self._executors is None:
            self._executors = wiring.project_executors(self.settings)
        return self._executors

    def _new_engine(self) -> "Engine":
        return wiring.new_engine(
            self.store,
            self._executors,
            self.settings,
            self._limits,
            load_executors=self.load_executors,
            new_effects=self._new_effects,
            hooks=self._hooks,
            clock=self._clock,
            new_id=self._new_id,
        )

    def leave_store(self) -> None:
        """Make current and later waits for an unavailable store fail soon."""
        self.store.stop_waiting()

    def now(self) -> datetime:
        """Return the current time of the store's clock, used in records."""
        return self._clock.now()
